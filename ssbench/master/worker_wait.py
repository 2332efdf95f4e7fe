"""The wait for workers: when all are here, and whether those who came are enough."""

from __future__ import annotations

from itertools import islice

from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.errors import FewerWorkersError, NoWorkersError
from ssbench.master.worker_manager import WorkerManager
from ssbench.transport.master_transport import MasterTransport

#: Without --workers or --expect-workers: nobody new for this long means that all are here.
ALL_JOINED_NS = 2 * SECOND
_MOST_OFFERS = 5  #: of workers, told where they are too few

_REFUSED_TOLD = 3


class WorkerWait:
    """Waits for so many workers, or for enough of them to be all users.

    :param wait_s: how long, to be named where nobody came.
    :param fewer_ok: fewer workers than expected are a warning, not an error.
    """

    def __init__(
        self,
        transport: MasterTransport,
        manager: WorkerManager,
        users: int,
        expected: int | None,
        wait_s: float,
        *,
        fewer_ok: bool = False,
    ) -> None:
        self._transport = transport
        self._manager = manager
        self._users = users
        self._expected = expected
        self._wait_s = wait_s
        self._fewer_ok = fewer_ok

    def __repr__(self) -> str:
        return f"<WorkerWait for {self._expected or 'some'} workers, {self._manager.registry}>"

    def complete(self, now_ns: int) -> bool:
        """Whether nobody needs to be waited for."""
        registry = self._manager.registry
        if self._manager.hopeless:
            return True
        if self._expected:
            return len(registry.workers) >= max(self._expected - self._manager.children_ended, 1)
        settled = now_ns - self._manager.newest_hello_ns > ALL_JOINED_NS
        return settled and registry.concurrency >= self._users

    def progress(self, left_ns: int) -> str:
        """A line for the user: who is here, who is waited for, and for how long at most."""
        registry = self._manager.registry
        here = len(registry.workers)
        left = f"({left_ns // SECOND} s left)"
        if self._expected:
            return f"Waiting for workers: {here} of {self._expected} {left}"
        if not here:
            return f"Waiting for workers: none so far {left}"
        users = f"{min(registry.concurrency, self._users)} of {self._users} users"
        return f"Waiting for workers: {here} so far, for {users} {left}"

    def _why_unreachable(self) -> str:
        """What keeps workers of other hosts away."""
        if not self._transport.is_loopback:
            return ""
        key = "make a key (ssbench-master make-key) for --zmq-key-file, or "
        return (
            f". {self._transport.ip} can be reached from this host only: for workers on other hosts"
            f" {'' if self._transport.has_key else key}bind another address with --zmq-bind-ip"
        )

    def _offers(self) -> str:
        """How many users each worker offers, those that offer fewest first."""
        offers = sorted(
            (w.hello.concurrency, w.name) for w in self._manager.registry.workers.values()
        )
        found = [f"{name}: {users}" for users, name in offers[:_MOST_OFFERS]]
        more = len(offers) - _MOST_OFFERS
        return ", ".join([*found, f"{more} more"] if more > 0 else found)

    def shortcomings(self) -> list[str]:
        """Warnings where fewer came than there should be.

        :raises NoWorkersError: where nobody came.
        :raises FewerWorkersError: where fewer than expected came, and that isn't ``fewer_ok``.
        """
        registry, expected = self._manager.registry, self._expected
        refused = "; ".join(islice(registry.refused.values(), _REFUSED_TOLD))
        because = f" ({refused})" if refused else ""
        here = len(registry.workers)
        if not here and self._manager.hopeless:
            raise NoWorkersError("all local workers have ended, and no other can join")
        if not here:
            raise NoWorkersError(
                f"no worker came within {self._wait_s:g} s to ports"
                f" {self._transport.ports.work}, {self._transport.ports.results} and"
                f" {self._transport.ports.control} of {self._transport.ip}{because}; start"
                f" ssbench-worker processes {self._transport.key_hint}, or give --workers N"
                f"{self._why_unreachable()}"
            )
        found = []
        if expected and here < expected:
            if not self._fewer_ok:
                raise FewerWorkersError(
                    f"only {here} of {expected} workers came within {self._wait_s:g} s{because};"
                    " the run was not started (--fewer-workers-ok runs with fewer)"
                )
            found.append(f"Only {here} of {expected} workers came{because}; going on with them")
        if registry.concurrency < self._users:
            found.append(
                f"The workers can run only {registry.concurrency} of {self._users} users"
                f" ({self._offers()}); continuing with {registry.concurrency} (ssbench-worker -c"
                " sets how many one offers; its log says where its host allows no more)"
            )
        return found
