"""From options to a store: credentials, or an embedded Swift, or none; and its settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count

from ssbench.cli.interrupts import Interrupts
from ssbench.cli.store_options import StoreOptions
from ssbench.core.credentials import Credentials
from ssbench.core.settings import StorageSettings


@dataclass(frozen=True, slots=True)
class Store:
    """A store that we have a token for."""

    settings: StorageSettings
    #: Gives a fresh token and its serial, where there is such a thing.
    renew: Callable[[], tuple[str, int]] | None


def noop_store() -> Store:
    """No store at all: the driver pretends."""
    return Store(StorageSettings(driver="noop", storage_urls=("noop:",)), None)


def embedded_store(stack: ExitStack, interrupts: Interrupts) -> Store:
    """A throw-away Swift on this host, that ends with the stack.

    :raises SsbenchError: where it can't be started.
    :raises KeyboardInterrupt: where a signal comes meanwhile.
    """
    from ssbench.embedded import EmbeddedSwift

    swift = stack.enter_context(EmbeddedSwift(sleep=interrupts.sleep))
    credentials = Credentials(auth=swift.auth_url, user=swift.user, key=swift.key)
    options = StoreOptions(credentials, (), 10.0, 20.0)
    return reach_store(options, lambda note: None, interrupts)


def reach_store(
    options: StoreOptions,
    say: Callable[[str], None],
    interrupts: Interrupts,
    waiting: Callable[[str], None] = lambda text: None,
) -> Store:
    """Authenticate.

    :param waiting: called again and again with what is waited for.
    :raises UsageError: where the options give no way in.
    :raises AuthError: where there is no token to be had.
    :raises KeyboardInterrupt: where a signal comes meanwhile.
    """
    with warnings.catch_warnings():
        # Of what these libraries themselves load; PYTHONWARNINGS=error would be a traceback here.
        warnings.simplefilter("ignore", DeprecationWarning)
        from ssbench.storage.auth import Authenticator  # keystoneauth1 takes its time to load

    credentials = options.credentials
    authenticator = Authenticator(credentials)
    for note in authenticator.notes:
        say(note)
    where = credentials.auth or credentials.os_auth_url or credentials.os_storage_url
    found = interrupts.run_interruptible(
        authenticator.authenticate, lambda: waiting(f"Waiting for the login at {where}")
    )
    settings = StorageSettings(
        storage_urls=options.storage_urls or (found.storage_url,),
        token=found.token,
        token_serial=1,
        connect_timeout_s=options.connect_timeout_s,
        network_timeout_s=options.network_timeout_s,
        insecure=credentials.insecure,
        cacert_pem=authenticator.cacert_pem,
        cert_path=credentials.os_cert,
        cert_key_path=credentials.os_key,
    )
    serials = count(settings.token_serial + 1)
    return Store(settings, lambda: (authenticator.renew().token, next(serials)))
