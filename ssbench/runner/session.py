"""What the runs of one command share: the store, the workers, the transport, the master.

A single run has a session of its own. The steps of a series run in one session, one after the
other, so that workers start, and containers are made, once.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import gevent
from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.dispatch.dispatcher import MAX_BATCH, batch_limit
from ssbench.core.errors import UsageError
from ssbench.core.live import Observer, RunProgress
from ssbench.core.model import Phase
from ssbench.core.records import RunHeader
from ssbench.core.settings import URL_CHOICES, Credentials, Limits, StorageSettings, TransportConfig
from ssbench.host.live import HostLive
from ssbench.host.process import allow_many_connections, tune_garbage_collector
from ssbench.master.master import Master
from ssbench.master.recorder import Recorder
from ssbench.runner.config import FREE_PORTS, RunConfig, default_workers
from ssbench.runner.stop import Stop
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import open_admin, open_provider, paths_of, row_of, secret_variables
from ssbench.storage.retrying_client import RetryingClient
from ssbench.transport.key import CurveKey, channel_key
from ssbench.transport.master_transport import MasterTransport, pipe_length
from ssbench.transport.parent_pipe import address_line
from ssbench.transport.sockets import EVERYWHERE, LOOPBACK, PortInUseError, Ports

if TYPE_CHECKING:
    from ssbench.runner.existing import ExistingObjects
    from ssbench.runner.local_workers import LocalWorkers
    from ssbench.runner.ssh_workers import SshWorkers


T = TypeVar("T")

#: Between two polls of the master while a run waits for the store.
_KEEPALIVE_INTERVAL_S = 0.01
#: Of a run, in its stat file: readers accept arrays of MAX_ITEMS, and without its footer a run
#: looks cut off. What fails for hours, or a worker, may give any number.
MOST_WARNINGS = 4000
_MOST_SHOWN = 4  #: local workers that have a line each; of more, one line says where the logs are


class Session:
    """Opens things when they are first needed; they close with the stack.

    :param start_local: starts workers on this host, if none were started and none is there.
    :param workers: of this host and those over ssh that were started; they end before the
        transport is closed.
    :param most_users: of any run.
    :param wanted_users: that the workers must be able to run before the first run starts.
    :param seed: None: one is drawn, for all runs.
    :param is_series: there may be several runs: workers are released with the stack.
    """

    def __init__(
        self,
        config: RunConfig,
        stack: ExitStack,
        observers: Sequence[Observer],
        stop: Stop,
        start_local: Callable[[RunConfig], LocalWorkers | None],
        workers: tuple[LocalWorkers | None, SshWorkers | None],
        most_users: int,
        wanted_users: int,
        seed: int | None,
        *,
        is_series: bool,
    ) -> None:
        self.config = config
        self.stack = stack
        self.observers = observers
        self.stop = stop
        self.most_users = most_users
        self.wanted_users = wanted_users
        self.seed = secrets.randbits(32) if seed is None else seed
        self.is_series = is_series
        self.warnings: list[str] = []  #: of the present run
        self.has_containers = False  #: they were made
        self.keeps_versions = False  #: these keep versions of objects
        self.has_workers = False  #: they were waited for
        #: All initial objects exist, and no run of the scenario changes them.
        self.has_objects = False
        self.existing: ExistingObjects | None = None  #: once they were listed
        self._runs = 0  # of a series, that have begun
        self._start_local = start_local
        self._local, self._ssh = workers
        self._store: Store | None = None
        self._master: Master | None = None
        stop.listen(None)
        stack.callback(tune_garbage_collector())
        stack.enter_context(own_hub())

    def __repr__(self) -> str:
        return f"<Session for {self.most_users} users, {self._master!r}>"

    def start_run(self, name: str) -> None:
        """Tell observers that the next run of a series begins."""
        self._runs += 1
        for observer in self.observers:
            observer.start_run(self._runs, name)

    def describe_run(self, header: RunHeader) -> None:
        """Tell observers of which run all is that follows."""
        for observer in self.observers:
            observer.describe_run(header)

    def info(self, text: str) -> None:
        """Give observers a message on the course of the run."""
        for observer in self.observers:
            observer.info(text)

    def warn(self, text: str) -> None:
        """Warn observers, and record the warning in the stat file of the present run."""
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(text)
        elif len(self.warnings) == MOST_WARNINGS:
            self.warnings.append("Further warnings of this run were shown, and are not recorded")
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
        exact_names: bool = False,
    ) -> Iterator[RetryingClient]:
        """A client of the store, for requests that are no operations of a run.

        :param settings: None: those of the store.
        :param stoppable: its work ends early when the run is stopped.
        :param exact_names: what it lists is of other clients: see ``StorageSettings.exact_names``.
        """
        store = self.store()
        settings = settings or store.settings
        with store.client(
            settings.with_exact_names() if exact_names else settings, concurrency,
            retries=self.config.retries, stopping=lambda: stoppable and self.stop.requested,
        ) as client:  # fmt: skip
            yield client

    def master(self, settings: StorageSettings, recorder: Recorder) -> Master:
        """The master, ready for a run with these settings."""
        if self._master is None:
            store = self.store()
            self._master = Master(
                self._transport,
                self.observers,
                settings,
                self.config,
                renew=store.renew,
                warn=self.warn,
                host=self.stack.enter_context(HostLive(store_pids=store.pids)),
                children=[each for each in (self._local, self._ssh) if each],
                profile=self.config.profile,
                marks=self.stop.marks,
            )
            if self.is_series:
                self.stack.callback(self._master.release_workers)
            self._begin_workers()
            self.stop.listen(self._master.interrupt)
        self._master.begin_run(settings, recorder)
        return self._master

    def start_workers(self) -> None:
        """Start workers on this host, as none is there.

        :raises UsageError: this host can't run so many users.
        """
        assert self._master  # nosec B101 # it looked for workers
        count = default_workers(self.most_users)
        self.config = replace(self.config, workers=count)
        self.info(
            f"No worker is there: starting {count} on this host, one for each CPU core but one"
            " (--workers sets another number)"
        )
        local = self._start_local(self.config)
        assert local  # nosec B101 # there is a number
        self._local = local
        local.send_address(address_line(self._transport, paths=self._worker_paths))
        self._master.add_children(local)
        for text in local.warnings:
            self.warn(text)
        self._begin_local(local)

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
        from ssbench.runner.ssh_workers import UNREACHED  # loaded, as they were started

        addresses = ", ".join(self._ssh.addresses)
        return f"; the workers over ssh connect to {addresses}: {UNREACHED}"

    @property
    def concurrency(self) -> int:
        """Users that the connected workers can run."""
        return self._master.workers.concurrency if self._master else 0

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

    @property
    def _worker_paths(self) -> Sequence[str]:
        """Files and directories that the run names, after the login."""
        settings = self.store().settings
        return [*self.config.worker_paths, *paths_of(row_of(settings.driver), settings)]

    def _bind_sockets(self) -> None:
        """Open the ports, and tell the workers that were started of them."""
        jobs = batch_limit(
            self.config.batch_size or MAX_BATCH, self.most_users, self.expected_workers or 1
        )
        bind = partial(
            open_ports, stack=self.stack, warn=self.warn, jobs_per_message=jobs, local=self._local,
            ssh=self._ssh, paths=self._worker_paths, others=self.config.expects_others,
        )  # fmt: skip
        try:
            self._transport = bind(self.config.bound)
        except PortInUseError:
            is_default = self.config.transport == TransportConfig()
            if not (is_default and self.config.looks_for_workers):
                raise
            self.info(
                "The default ports are in use, as by another ssbench-master: this run listens on"
                " free ones, where it finds no workers that were started by hand"
            )
            self._transport = bind(FREE_PORTS)
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
            self._begin_local(local)

    def _begin_local(self, local: LocalWorkers) -> None:
        local.begin()
        started = [*zip(local.logs, local.commands, strict=True)]
        if len(started) > _MOST_SHOWN:
            logs = f"{local.logs[0]} ... {local.logs[-1]}"
            self.info(f"Spawning {len(started)} local ssbench-worker processes (logging to {logs})")
            return
        for path, command in started:
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


class Store(Struct, frozen=True):
    """A store that we have credentials for."""

    settings: StorageSettings
    renew: Callable[[], Credentials]
    password_equivalent: bool = False  #: as in Access
    pids: tuple[int, ...] = ()  #: processes of a temporary store that ssbench runs

    @contextmanager
    def client(
        self, settings: StorageSettings, concurrency: int, **more: Any
    ) -> Iterator[RetryingClient]:
        """A client, for requests that are no operations of a run.

        :param more: as of RetryingClient.
        """
        storage = open_admin(settings)
        try:
            yield RetryingClient(
                storage, concurrency, renew=self.renew, listed_max=settings.listed_max,
                credentials=settings.newest, **more,
            )  # fmt: skip
        finally:
            storage.close()


def embedded_store(stack: ExitStack, stop: Stop) -> Store:
    """A temporary Swift on this host, which ends with the stack.

    :raises SsbenchError: it can't be started.
    :raises KeyboardInterrupt: it was stopped meanwhile.
    """
    from ssbench.embedded import EmbeddedSwift

    swift = stack.enter_context(
        EmbeddedSwift(sleep=stop.sleep, hidden=secret_variables(StoreOptions()))
    )
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
        choice = options.settings.url_choice
        if choice != URL_CHOICES[0] and not row_of(options.driver).urls:
            raise UsageError(f'--url-choice {choice}: the store "{options.driver}" has no URLs')
        # It may ask what gives a profile's keys.
        provider = stop.run_interruptible(lambda: open_provider(options))
    for note in provider.notes:
        say(note)
    access = (
        provider.log_in()
        if not provider.where
        else stop.run_interruptible(
            provider.log_in, lambda: waiting(f"Waiting for the login at {provider.where}")
        )
    )
    settings = replace(
        options.settings,
        driver=options.driver,
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
    if hub.loop.default and (handler := signal.getsignal(signal.SIGCHLD)) is not None:
        # From the second default loop of a process on, libev handles SIGCHLD and reaps all
        # children: exit statuses of workers and of ssh would read 0.
        signal.signal(signal.SIGCHLD, handler)
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
