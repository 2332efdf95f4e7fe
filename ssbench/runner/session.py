"""What the runs of one command share: the store, the workers, the transport, the master.

A single run has a session of its own. The steps of a series run in one session, one after the
other, so that workers start, and containers are made, once.
"""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

import gevent
from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.dispatch.dispatcher import MAX_BATCH, batch_limit
from ssbench.core.errors import UsageError
from ssbench.core.live import Observer, RunProgress
from ssbench.core.model import Phase
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.host.live import HostLive
from ssbench.host.process import allow_many_connections, tune_garbage_collector
from ssbench.master.master import Master, MasterOptions
from ssbench.master.phases import Limits
from ssbench.master.recorder import Recorder
from ssbench.runner.config import RunConfig, SessionSettings, TransportConfig
from ssbench.runner.local_workers import LocalWorkers
from ssbench.runner.ssh_workers import UNREACHED, SshWorkers
from ssbench.runner.stop import Stop
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import open_admin, open_provider
from ssbench.storage.retrying_client import RetryingClient
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport, pipe_length
from ssbench.transport.parent_pipe import address_line
from ssbench.transport.sockets import Ports

if TYPE_CHECKING:
    from ssbench.runner.existing import ExistingObjects

T = TypeVar("T")

#: Between two turns of the master's loop while the store is waited for.
_KEEPALIVE_INTERVAL_S = 0.01


class Store(Struct, frozen=True):
    """A store that we have credentials for."""

    settings: StorageSettings
    renew: Callable[[], Credentials]
    password_equivalent: bool = False  #: as in Access


class Session:
    """Opens things when they are first needed; they close with the stack.

    :param workers: of this host and those over ssh that were started; they end before the
        transport is closed.
    """

    def __init__(
        self,
        config: RunConfig,
        settings: SessionSettings,
        stack: ExitStack,
        observers: Sequence[Observer],
        stop: Stop,
        workers: tuple[LocalWorkers | None, SshWorkers | None],
    ) -> None:
        self.config = config
        self.stack = stack
        self.observers = observers
        self.stop = stop
        self.most_users = settings.most_users
        self.wanted_users = settings.wanted_users or settings.most_users
        self.seed = settings.seed if settings.seed is not None else secrets.randbits(32)
        self.is_series = settings.is_series
        self.warnings: list[str] = []  #: of the present run
        self.has_containers = False  #: they were made
        self.has_workers = False  #: they were waited for
        #: All initial objects exist, and no run of the scenario changes them.
        self.has_objects = False
        self.existing: ExistingObjects | None = None  #: once they were listed
        self._runs = 0  # of a series, that have begun
        self._local, self._ssh = workers
        self._store: Store | None = None
        self._master: Master | None = None
        stack.callback(tune_garbage_collector())
        stack.enter_context(own_hub())

    def __repr__(self) -> str:
        return f"<Session for {self.most_users} users, {self._master!r}>"

    def start_run(self, name: str) -> None:
        """Tell observers that the next run of a series begins."""
        self._runs += 1
        for observer in self.observers:
            observer.start_run(self._runs, name)

    def info(self, text: str) -> None:
        """Give observers a message on the course of the run."""
        for observer in self.observers:
            observer.info(text)

    def warn(self, text: str) -> None:
        """Warn observers, and record the warning in the stat file of the present run."""
        self.warnings.append(text)
        for observer in self.observers:
            observer.message(f"WARNING: {text}")

    def wait_for(self, text: str) -> None:
        """Say what is waited for; "" when the wait is over."""
        for observer in self.observers:
            observer.wait_for(text)

    def store(self) -> Store:
        """The store; the first time, wait for the hosts of ssh, log in and open the ports."""
        if self._store is None:
            if self._ssh:
                self._ssh.wait_until_started(self.stop, self.wait_for)
            self._store = self._reach_store()
            self._bind_sockets()
        return self._store

    @contextmanager
    def client(
        self,
        settings: StorageSettings | None = None,
        concurrency: int = 1,
        *,
        stoppable: bool = True,
    ) -> Iterator[RetryingClient]:
        """A client of the store, for requests that are no operations of a run.

        :param settings: None: those of the store.
        :param stoppable: its work ends early when the run is stopped.
        """
        store = self.store()
        storage = open_admin(settings or store.settings)
        try:
            yield RetryingClient(
                storage, concurrency, retries=self.config.retries, renew=store.renew,
                stopping=lambda: stoppable and self.stop.requested,
            )  # fmt: skip
        finally:
            storage.close()

    def master(self, settings: StorageSettings, limits: Limits, recorder: Recorder) -> Master:
        """The master, ready for a run with these settings."""
        if self._master is None:
            store = self.store()
            self._master = Master(
                self._transport,
                self.observers,
                settings,
                MasterOptions(
                    limits=limits,
                    renew=store.renew,
                    warn=self.warn,
                    host=self.stack.enter_context(HostLive()),
                    children=[each for each in (self._local, self._ssh) if each],
                    profile=self.config.profile,
                ),
            )
            if self.is_series:
                self.stack.callback(self._master.release_workers)
            self._begin_workers()
            self.stop.listen(self._master.interrupt)
        self._master.begin_run(settings, recorder)
        return self._master

    @property
    def expected_workers(self) -> int | None:
        """Workers to wait for; None: as many as can run the users."""
        started = (self.config.workers or 0) + (self._ssh.count if self._ssh else 0)
        return max(self.config.expect_workers or 0, started) or None

    @property
    def unreached(self) -> str:
        """What may keep workers from joining, as part of an error; "" if nothing is known."""
        if not self._ssh:
            return ""
        addresses = ", ".join(self._ssh.addresses)
        return f"; the workers over ssh connect to {addresses}: {UNREACHED}"

    @property
    def concurrency(self) -> int:
        """Users that the connected workers can run."""
        return self._master.registry.concurrency if self._master else 0

    def cpu_times(self) -> dict[int, tuple[float, float]]:
        """Seconds of user and system time so far of this process and each local worker, by process
        id."""
        own = os.times()
        return {
            os.getpid(): (own.user, own.system),
            **(self._local.cpu_times() if self._local else {}),
        }

    def meanwhile(self, work: Callable[[], T]) -> T:
        """The result of ``work``, called in a thread between two runs; workers stay connected."""
        if self._master is None:
            return work()
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(work)
            self._master.keep_workers(done.done)
        return done.result()

    @contextmanager
    def workers_kept(self) -> Iterator[None]:
        """Within it, heartbeats go on whenever gevent waits, as for the store."""
        master = self._master
        if master is None:
            yield
            return

        def keep() -> None:
            while True:
                master.keep_workers_once()
                gevent.sleep(_KEEPALIVE_INTERVAL_S)

        keeper = gevent.spawn(keep)
        try:
            yield
            if keeper.ready():
                keeper.get()  # raises what ended it
        finally:
            keeper.kill()

    def _reach_store(self) -> Store:
        if self.config.store is None:
            self.info("Starting a temporary Swift on this host")
            return embedded_store(self.stack, self.stop)
        options = replace(self.config.store, remote_workers=self.config.has_remote_workers)
        try:
            return reach_store(options, self.warn, self.stop, self.wait_for)
        finally:
            self.wait_for("")

    def _bind_sockets(self) -> None:
        """Open the ports, and tell the workers that were started of them."""
        jobs = batch_limit(
            self.config.batch_size or MAX_BATCH, self.most_users, self.expected_workers or 1
        )
        self._transport = open_ports(
            self.config.transport, self.stack, self.warn, jobs, local=self._local, ssh=self._ssh
        )
        if self._store and self._store.password_equivalent:
            check_encrypted(self._transport)

    def _begin_workers(self) -> None:
        local, ssh = self._local, self._ssh
        for each in (local, ssh):
            for text in each.warnings if each else ():
                self.warn(text)
        if ssh:
            self.info(ssh.summary)
        if local:
            local.begin()
            for path, command in zip(local.logs, local.commands, strict=True):
                self.info(f"Spawning local ssbench-worker (logging to {path}) with {command}")


@contextmanager
def counted_phase(
    observers: Sequence[Observer], phase: Phase, total: int | None = None, title: str = ""
) -> Iterator[Callable[[int, int], None]]:
    """Shows observers a phase that has no operations, such as making containers.

    It gives ``count(done, total)``, which says how far the phase is.
    """
    started_s = time.monotonic()

    def count(done: int, total: int) -> None:
        elapsed_s = max(time.monotonic() - started_s, 1e-9)
        rate = done / elapsed_s
        remaining_s = (total - done) / rate if rate else None
        progress = RunProgress(elapsed_s, done, total, rate=rate, remaining_s=remaining_s)
        for observer in observers:
            observer.update(progress)

    for observer in observers:
        observer.start_phase(phase, total, title)
    try:
        yield count
    finally:
        for observer in observers:
            observer.end_phase()


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

    :param waiting: called repeatedly with what is waited for.
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
    return Store(settings, provider.renew, access.password_equivalent)


def open_ports(
    config: TransportConfig,
    stack: ExitStack,
    warn: Callable[[str], None],
    jobs_per_message: int = 1,
    *,
    local: LocalWorkers | None = None,
    ssh: SshWorkers | None = None,
) -> MasterTransport:
    """As ``bind``, until the stack closes; and send address and key to the workers that were
    started, which end before that."""
    key, address = load_key(config), config.address
    if key is None and (ssh or (local and address is None)):
        key = CurveKey.generate()  # for these workers only
        for each in (local, ssh):
            if each:
                each.exclusive = True
        if not ssh:
            address = "127.0.0.1"
    if ssh and address is None:
        address = ssh.bind_address
    transport = stack.enter_context(bind(config, key, address, warn, jobs_per_message))
    if ssh is not None:
        stack.callback(ssh.end)
        ssh.send_addresses(transport, key)
    if local is not None:
        stack.callback(local.end)
        local.send_address(address_line(transport, key))
    return transport


def load_key(transport: TransportConfig) -> CurveKey | None:
    """The key of the key file; None without one.

    :raises UsageError: the file can't be used.
    """
    return CurveKey.load(transport.key_file) if transport.key_file else None


def bind(
    config: TransportConfig,
    key: CurveKey | None,
    address: str | None,
    warn: Callable[[str], None],
    jobs_per_message: int = 1,
) -> MasterTransport:
    """The master's sockets, with a warning if unknown peers could connect to them.

    :param jobs_per_message: most jobs in a batch.
    :raises TransportError: a port is not available.
    """
    allow_many_connections()
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


def kill_workers(
    config: TransportConfig, wait_s: float, observers: Sequence[Observer], stop: Stop
) -> tuple[list[str], list[str]]:
    """End all workers that connect; returns the names of those that ended, and of the others.

    :raises TransportError: a port is not available.
    """

    def warn(text: str) -> None:
        for observer in observers:
            observer.message(f"WARNING: {text}")

    with own_hub(), bind(config, load_key(config), config.address, warn) as transport:
        limits = Limits(worker_timeout_s=3600.0)  # workers themselves say that they end
        master = Master(transport, observers, StorageSettings(), MasterOptions(limits=limits))
        stop.listen(master.interrupt)
        return master.kill_workers(wait_s)
