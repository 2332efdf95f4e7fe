"""What commands reach store and workers with: a login, the master's ports, gevent's hub."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import gevent
from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.core.live import Observer
from ssbench.core.peers import Limits, TransportConfig
from ssbench.core.settings import URL_CHOICES, Credentials, StorageSettings
from ssbench.host.process import allow_many_connections
from ssbench.master.master import Master
from ssbench.runner.stop import Stop
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import open_provider, row_of
from ssbench.transport.key import CurveKey, channel_key
from ssbench.transport.master_transport import MasterTransport, pipe_length
from ssbench.transport.parent_pipe import address_line
from ssbench.transport.sockets import EVERYWHERE, LOOPBACK, Ports

if TYPE_CHECKING:
    from ssbench.runner.local_workers import LocalWorkers
    from ssbench.runner.ssh_workers import SshWorkers


class Store(Struct, frozen=True):
    """A store that we have credentials for."""

    settings: StorageSettings
    renew: Callable[[], Credentials]
    password_equivalent: bool = False  #: as in Access
    pids: tuple[int, ...] = ()  #: processes of a temporary store that ssbench runs


def embedded_store(stack: ExitStack, stop: Stop) -> Store:
    """A temporary Swift on this host, which ends with the stack.

    :raises SsbenchError: it can't be started.
    :raises KeyboardInterrupt: it was stopped meanwhile.
    """
    from ssbench.embedded import EmbeddedSwift

    swift = stack.enter_context(EmbeddedSwift(sleep=stop.sleep))
    given = {"auth": swift.auth_url, "user": swift.user, "key": swift.key}
    store = reach_store(StoreOptions("swift", given), lambda note: None, stop)
    return replace(store, pids=tuple({*swift.pids.values()}))


def reach_store(
    options: StoreOptions,
    say: Callable[[str], None],
    stop: Stop,
    waiting: Callable[[str], None] = lambda text: None,
) -> Store:
    """Log in to the store, if it has a login.

    :param waiting: called repeatedly with what is waited for.
    :raises UsageError: the options are incomplete or not valid.
    :raises AuthError: the login failed.
    :raises KeyboardInterrupt: it was stopped meanwhile.
    """
    with warnings.catch_warnings():
        # Of what keystoneauth1 loads; PYTHONWARNINGS=error would be a traceback here.
        warnings.simplefilter("ignore", DeprecationWarning)
        if options.url_choice != URL_CHOICES[0] and not row_of(options.driver).urls:
            raise UsageError(
                f'--url-choice {options.url_choice}: the store "{options.driver}" has no URLs'
            )
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
        listed_max=options.listed_max,
        url_choice=options.url_choice,
        store=access.settings,
        credentials=(access.credentials,),
    )
    return Store(settings, provider.renew, access.password_equivalent)


def open_ports(
    config: TransportConfig,
    stack: ExitStack,
    warn: Callable[[str], None],
    jobs_per_message: int = 1,
    *,
    local: LocalWorkers | None = None,
    ssh: SshWorkers | None = None,
    paths: Sequence[str] = (),
    others: bool = False,
) -> MasterTransport:
    """As ``bind``, until the stack closes; and send address and key to the workers that were
    started, which end before that.

    :param paths: that these workers may use.
    :param others: whether workers that were started by hand are to join local ones.
    """
    key = None
    if not config.key_file and (ssh or (local and config.address is None and not others)):
        key = CurveKey.generate()  # for these workers only
        for each in (local, ssh):
            if each:
                each.exclusive = True
    if ssh and config.address is None:
        config = replace(config, address=ssh.bind_address or EVERYWHERE)
    transport = stack.enter_context(bind(config, warn, jobs_per_message, key=key))
    if ssh is not None:
        stack.callback(ssh.end)
        ssh.send_addresses(transport, paths)
    if local is not None:
        stack.callback(local.end)
        local.send_address(address_line(transport, paths=paths))
    return transport


def bind(
    config: TransportConfig,
    warn: Callable[[str], None],
    jobs_per_message: int = 1,
    *,
    key: CurveKey | None = None,
) -> MasterTransport:
    """The master's sockets, with a warning if unknown peers could connect to them.

    :param jobs_per_message: most jobs in a batch.
    :param key: instead of that of the key file, or of our user on this host.
    :raises TransportError: a port is not available.
    :raises UsageError: the key file can't be used.
    """
    allow_many_connections()
    address = config.address or (None if config.key_file else LOOPBACK)
    key = key or channel_key(config.key_file, address, warn)
    ports = Ports(config.work_port, config.results_port, config.control_port)
    transport = MasterTransport(address, ports, key, pipe=pipe_length(jobs_per_message))
    if key is None and not transport.is_loopback:
        ports = transport.ports
        warn(
            f"anyone who can reach {transport.ip}, ports {ports.work}, {ports.results} and"
            f" {ports.control}, can read the token and take jobs; use --zmq-key-file to reject"
            " unknown peers"
        )
    return transport


def check_encrypted(transport: MasterTransport) -> None:
    """:raises UsageError: workers of other hosts could connect without a key."""
    if not (transport.has_key or transport.is_loopback):
        raise UsageError(
            f"workers would get credentials that are as good as your password, and the master"
            f" listens on {transport.ip} without a key: encrypt with --zmq-key-file (make-key"
            " writes one), or leave out --zmq-bind-ip"
        )


@contextmanager
def own_hub() -> Iterator[None]:
    """Destroy this thread's gevent hub at the end, unless there was one before.

    A hub holds descriptors and threads, which a thread's end does not release.
    """
    from gevent._hub_local import get_hub_if_exists

    before = get_hub_if_exists()
    hub = gevent.get_hub()
    # KeyboardInterrupt is raised on purpose: without this, gevent prints a traceback of it.
    not_error, hub.NOT_ERROR = hub.NOT_ERROR, (*hub.NOT_ERROR, KeyboardInterrupt)
    try:
        yield
    finally:
        if before is None:
            gevent.sleep(0)  # a hub that raised KeyboardInterrupt goes back to its loop first
            hub.destroy(destroy_loop=True)
        else:
            hub.NOT_ERROR = not_error


def warn_all(observers: Sequence[Observer], text: str) -> None:
    """Warn of something that is of no run."""
    for observer in observers:
        observer.message(f"WARNING: {text}")


def kill_workers(
    config: TransportConfig, wait_s: float, observers: Sequence[Observer], stop: Stop
) -> tuple[list[str], list[str]]:
    """End all workers that connect; returns the names of those that ended, and of the others.

    :raises TransportError: a port is not available.
    """
    warn = partial(warn_all, observers)
    with own_hub(), bind(config, warn) as transport:
        limits = Limits(worker_timeout_s=3600.0)  # workers themselves say that they end
        master = Master(transport, observers, StorageSettings(), limits)
        stop.listen(master.interrupt)
        return master.kill_workers(wait_s)
