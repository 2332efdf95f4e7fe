"""What the runs of one command share: the store, the workers, the transport, the master.

A run on its own has a session of its own; the steps of a series run in one, one after the other,
so that workers are started, and containers made, once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from ssbench.cli.interrupts import Interrupts
from ssbench.cli.local_workers import LocalWorkers
from ssbench.cli.progress import make_progress
from ssbench.cli.run_config import RunOptions
from ssbench.cli.stores import Store, embedded_store, reach_store
from ssbench.cli.wiring import bind, key_of
from ssbench.core.dispatch.dispatcher import MAX_BATCH, batch_limit
from ssbench.core.settings import StorageSettings
from ssbench.host.process import tune_garbage_collector
from ssbench.transport.key import CurveKey
from ssbench.transport.master_address import address_line

if TYPE_CHECKING:
    from ssbench.master.master import Master
    from ssbench.master.phases import Limits
    from ssbench.master.recorder import Recorder

T = TypeVar("T")

#: Between two looks at the workers while the store is waited for.
_KEEPALIVE_INTERVAL_S = 0.01


class Session:
    """Opens things when they are first needed; they close with the stack.

    :param interrupts: which hold signals until the master, once there is one, listens.
    :param local: workers of our own that were started; they end before the transport is closed.
    :param most_users: of any run of it.
    :param seed: None: one is drawn, for all runs.
    :param wanted_users: how many the workers must be, to begin; None: ``most_users``.
    :param is_series: more than one run may come: workers are let go with the stack, not before.
    """

    def __init__(
        self,
        options: RunOptions,
        stack: ExitStack,
        interrupts: Interrupts,
        *,
        local: LocalWorkers | None = None,
        most_users: int,
        seed: int | None,
        wanted_users: int | None = None,
        is_series: bool = False,
    ) -> None:
        self.options = options
        self.most_users = most_users
        self.wanted_users = wanted_users or most_users
        self.seed = seed if seed is not None else secrets.randbits(32)
        self.is_series = is_series
        self.stack = stack
        self.interrupts = interrupts
        self.progress = stack.enter_context(make_progress(options.progress, quiet=options.quiet))
        self.warnings: list[str] = []  #: of the present run
        self.has_containers = False  #: they were made
        self.has_workers = False  #: they were waited for
        #: The initial objects are all there, and no run of the scenario changes them.
        self.has_objects = False
        self._local = local
        self._store: Store | None = None
        self._master: Master | None = None

    def __repr__(self) -> str:
        return f"<Session for {self.most_users} users, {self._master!r}>"

    def say(self, text: str, prefix: str = "INFO:") -> None:
        """Tell the user, unless -q; as ssbench 0.3.9 did, whose lines scripts may look for."""
        if not self.options.quiet:
            self.progress.message(f"{prefix}{text}")

    def warn(self, text: str) -> None:
        """Tell the user in any case, and the stat file of the present run."""
        self.warnings.append(text)
        self.progress.message(f"WARNING: {text}")

    def store(self) -> Store:
        """The store; the first time, log in."""
        if self._store is None:
            self._store = self._reach_store()
            self._bind_sockets()
        return self._store

    def master(self, settings: StorageSettings, limits: Limits, recorder: Recorder) -> Master:
        """The master, ready for a run with these settings."""
        if self._master is None:
            store = self.store()
            # Loaded while the workers start, which takes them as long.
            from ssbench.host.live import HostLive
            from ssbench.master.master import Master, MasterOptions

            self._master = Master(
                self._transport,
                [self.progress],
                settings,
                MasterOptions(
                    limits=limits,
                    renew=store.renew,
                    warn=self.warn,
                    host=self.stack.enter_context(HostLive()),
                    children=self._local,
                ),
            )
            if self.is_series:
                self.stack.callback(self._master.release_workers)
            if self._local:
                self._begin(self._local)
            self.interrupts.listen(self._master.interrupt)
            tune_garbage_collector()
        self._master.begin_run(settings.run_id, recorder)
        return self._master

    @property
    def concurrency(self) -> int:
        """How many users the workers that are here can be."""
        return self._master.registry.concurrency if self._master else 0

    def meanwhile(self, work: Callable[[], T]) -> T:
        """Do something that takes long between two runs, with an eye on the workers."""
        if self._master is None:
            return work()
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(work)
            self._master.keep_workers(done.done)
        return done.result()

    @contextmanager
    def workers_kept(self) -> Iterator[None]:
        """Within it, heartbeats go on whenever gevent has a moment: while the store answers."""
        if self._master is None:
            yield
            return
        import gevent  # takes long to load

        def keep(master: Master) -> None:
            while True:
                master.keep_workers_once()
                gevent.sleep(_KEEPALIVE_INTERVAL_S)

        keeper = gevent.spawn(keep, self._master)
        try:
            yield
            if keeper.ready():
                keeper.get()  # a defect of ours, which ended it
        finally:
            keeper.kill()

    def _reach_store(self) -> Store:
        if self.options.embedded_swift:
            self.say("Starting a temporary Swift on this host")
            return embedded_store(self.stack, self.interrupts)
        assert self.options.store is not None  # nosec B101 # chosen.py sees to it
        try:
            return reach_store(
                self.options.store, self.warn, self.interrupts, self.progress.wait_for
            )
        finally:
            self.progress.wait_for("")

    def _bind_sockets(self) -> None:
        """Open the ports, and tell those workers that are ours of them."""
        options, local = self.options, self._local
        key, address = key_of(options.zmq), options.zmq.address
        if local and key is None and address is None:
            key, address = CurveKey.generate(), "127.0.0.1"  # nobody but our own
            local.exclusive = True
        jobs = batch_limit(
            options.batch_size or MAX_BATCH,
            self.most_users,
            options.expect_workers or options.workers or 1,
        )
        self._transport = self.stack.enter_context(bind(options.zmq, key, address, self.warn, jobs))
        if local is None:
            return
        self.stack.callback(local.end)
        local.tell(address_line(self._transport, key))

    def _begin(self, local: LocalWorkers) -> None:
        local.begin()
        for text in local.warnings:
            self.warn(text)
        for path, command in zip(local.logs, local.commands, strict=True):
            self.say(f"Spawning local ssbench-worker (logging to {path}) with {command}")
