"""From options to a store that is logged in to: its settings, and how to renew credentials."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from ssbench.core.settings import Credentials, StorageSettings
from ssbench.runner.stop import Stop
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import open_provider


@dataclass(frozen=True, slots=True)
class Store:
    """A store that we have credentials for."""

    settings: StorageSettings
    renew: Callable[[], Credentials]


def embedded_store(stack: ExitStack, stop: Stop) -> Store:
    """A temporary Swift on this host, which ends with the stack.

    :raises SsbenchError: it can't be started.
    :raises KeyboardInterrupt: it was stopped meanwhile.
    """
    from ssbench.embedded import EmbeddedSwift

    swift = stack.enter_context(EmbeddedSwift(sleep=stop.sleep))
    given = {"auth": swift.auth_url, "user": swift.user, "key": swift.key}
    return reach_store(StoreOptions("swift", given), lambda note: None, stop)


def reach_store(
    options: StoreOptions,
    say: Callable[[str], None],
    stop: Stop,
    waiting: Callable[[str], None] = lambda text: None,
) -> Store:
    """Log in to the store, if it has a login.

    :param waiting: called again and again with what is waited for.
    :raises UsageError: the options are incomplete or not valid.
    :raises AuthError: the login failed.
    :raises KeyboardInterrupt: it was stopped meanwhile.
    """
    with warnings.catch_warnings():
        # Of what keystoneauth1 loads; PYTHONWARNINGS=error would be a traceback here.
        warnings.simplefilter("ignore", DeprecationWarning)
        provider = open_provider(options)
    for note in provider.notes:
        say(note)
    access = (
        provider.log_in()
        if not provider.where
        else stop.run_interruptible(
            provider.log_in, lambda: waiting(f"Waiting for the login at {provider.where}")
        )
    )
    settings = StorageSettings(
        options.driver,
        connect_timeout_s=options.connect_timeout_s,
        network_timeout_s=options.network_timeout_s,
        store=access.settings,
        credentials=(access.credentials,),
    )
    return Store(settings, provider.renew)
