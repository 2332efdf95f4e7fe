"""The wait for workers: when all are here, and whether those who came are enough."""

from __future__ import annotations

from itertools import islice

from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.errors import FewerWorkersError, NoWorkersError
from ssbench.master.worker_manager import WorkerManager
from ssbench.transport.master_transport import MasterTransport

#: Without --workers or --expect-workers: nobody new for this long means that all are here.
SETTLED_NS = 2 * SECOND
_MOST_OFFERS = 5  #: of workers, told where they are too few

_REFUSED_TOLD = 3


class WorkerWait:
    """Waits for so many workers, or for enough of them to be all users.

    :param wait_s: how long, to be named where nobody came.
    :param fewer_ok: fewer workers than expected are a warning, not an error.
    """

    def __init__(
        self,
        wire: MasterTransport,
        crew: WorkerManager,
        users: int,
        expected: int | None,
        wait_s: float,
        *,
        fewer_ok: bool = False,
    ) -> None:
        self._wire = wire
        self._crew = crew
        self._users = users
        self._expected = expected
        self._wait_s = wait_s
        self._fewer_ok = fewer_ok

    def __repr__(self) -> str:
        return f"<WorkerWait for {self._expected or 'some'} workers, {self._crew.roster}>"

    def complete(self, now_ns: int) -> bool:
        """Whether nobody needs to be waited for."""
        roster = self._crew.roster
        if self._crew.hopeless:
            return True
        if self._expected:
            return len(roster.workers) >= max(self._expected - self._crew.children_ended, 1)
        settled = now_ns - self._crew.newest_hello_ns > SETTLED_NS
        return settled and roster.concurrency >= self._users

    def progress(self, left_ns: int) -> str:
        """A line for the user: who is here, who is waited for, and for how long at most."""
        roster = self._crew.roster
        here = len(roster.workers)
        left = f"({left_ns // SECOND} s left)"
        if self._expected:
            return f"Waiting for workers: {here} of {self._expected} {left}"
        if not here:
            return f"Waiting for workers: none so far {left}"
        users = f"{min(roster.concurrency, self._users)} of {self._users} users"
        return f"Waiting for workers: {here} so far, for {users} {left}"

    def _why_unreachable(self) -> str:
        """What keeps workers of other hosts away."""
        if not self._wire.is_loopback:
            return ""
        key = "make a key (ssbench-master make-key) for --zmq-key-file, or "
        return (
            f". {self._wire.ip} can be reached from this host only: for workers on other hosts"
            f" {'' if self._wire.has_key else key}bind another address with --zmq-bind-ip"
        )

    def _offers(self) -> str:
        """How many users each worker offers, those that offer fewest first."""
        offers = sorted((w.hello.concurrency, w.name) for w in self._crew.roster.workers.values())
        found = [f"{name}: {users}" for users, name in offers[:_MOST_OFFERS]]
        more = len(offers) - _MOST_OFFERS
        return ", ".join([*found, f"{more} more"] if more > 0 else found)

    def shortcomings(self) -> list[str]:
        """Warnings where fewer came than there should be.

        :raises NoWorkersError: where nobody came.
        :raises FewerWorkersError: where fewer than expected came, and that isn't ``fewer_ok``.
        """
        roster, expected = self._crew.roster, self._expected
        refused = "; ".join(islice(roster.refused.values(), _REFUSED_TOLD))
        because = f" ({refused})" if refused else ""
        here = len(roster.workers)
        if not here and self._crew.hopeless:
            raise NoWorkersError("all local workers have ended, and no other can join")
        if not here:
            raise NoWorkersError(
                f"no worker came within {self._wait_s:g} s to ports"
                f" {self._wire.ports.work}, {self._wire.ports.results} and"
                f" {self._wire.ports.control} of {self._wire.ip}{because}; start"
                f" ssbench-worker processes {self._wire.key_words}, or give --workers N"
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
        if roster.concurrency < self._users:
            found.append(
                f"The workers can run only {roster.concurrency} of {self._users} users"
                f" ({self._offers()}); continuing with {roster.concurrency} (ssbench-worker -c sets"
                " how many one offers; its log says where its host allows no more)"
            )
        return found
