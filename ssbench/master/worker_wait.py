"""The wait for workers at the start of a run, and what is said if they are too few."""

from __future__ import annotations

from itertools import islice

from ssbench.core.dispatch.workers import Workers
from ssbench.core.errors import NoWorkersError
from ssbench.core.model import SECOND_NS
from ssbench.core.text import first_of
from ssbench.transport.master_transport import MasterTransport

#: Without --workers or --expect-workers: no new worker for this long means that all have joined.
ALL_JOINED_NS = 2 * SECOND_NS
#: Where the command is only about the workers that are there, so long for the first of them: on a
#: busy host, those that waited for a master need more than two seconds to connect again.
FIRST_JOINED_NS = 6 * SECOND_NS
_MAX_OFFERS, _MAX_REFUSALS = 5, 3  #: in an error message


class WorkerWait:
    """The wait for workers at the start of a run.

    :param users: that the run needs.
    :param expected: number of workers; None: as many as can run the users.
    """

    def __init__(
        self,
        workers: Workers,
        transport: MasterTransport,
        users: int,
        expected: int | None,
    ) -> None:
        self._workers = workers
        self._transport = transport
        self._users = users
        self._expected = expected

    def __repr__(self) -> str:
        return f"<WorkerWait for {self._expected or 'any'} workers, {self._workers}>"

    def complete(self, now_ns: int) -> bool:
        """Whether all expected workers have joined, or none can join any more."""
        workers = self._workers
        if workers.none_can_join:
            return True
        if self._expected:
            return workers.load_workers >= max(self._expected - workers.children_ended, 1)
        all_joined = now_ns - workers.newest_hello_ns > ALL_JOINED_NS
        return all_joined and workers.concurrency >= self._users

    def progress(self, left_ns: int) -> str:
        """A line for the user: which workers have joined, and how long the wait lasts at most."""
        workers = self._workers
        joined = workers.load_workers
        left = f"{left_ns // SECOND_NS} s left"
        if self._expected:
            if joined and self._workers.limits.fewer_workers_ok:
                left += f", then the run starts with {joined}"
            return f"Waiting for workers: {joined} of {self._expected} ({left})"
        if not joined:
            return f"Waiting for workers: none so far ({left})"
        users = f"{min(workers.concurrency, self._users)} of {self._users} users"
        return f"Waiting for workers: {joined} so far, for {users} ({left})"

    def shortcomings(self) -> list[str]:
        """Warnings if fewer workers or users are available than wanted.

        :raises NoWorkersError: if no worker joined; or fewer than expected, unless
            ``fewer_workers_ok``.
        """
        workers, expected = self._workers, self._expected
        refused = "; ".join(islice(workers.refused.values(), _MAX_REFUSALS))
        because = f" ({refused})" if refused else ""
        joined, wait_s = workers.load_workers, self._workers.limits.worker_wait_s
        if not joined:
            raise NoWorkersError(self._why_none(because))
        found = []
        if expected and joined < expected:
            if not self._workers.limits.fewer_workers_ok:
                raise NoWorkersError(
                    f"only {joined} of {expected} workers joined within {wait_s:g} s{because};"
                    " the run was not started (--fewer-workers-ok runs with fewer)"
                )
            found.append(
                f"Only {joined} of {expected} workers joined{because}; continuing with {joined}"
            )
        if workers.concurrency < self._users:
            found.append(
                f"The workers can run only {workers.concurrency} of {self._users} users"
                f" ({self._offers()}); continuing with {workers.concurrency} (ssbench-worker -c"
                " sets how many one offers; its log says if its host allows no more)"
            )
        return found

    def _why_none(self, because: str) -> str:
        if self._workers.none_can_join:
            return "all workers that the run started have ended, and no other can join"
        address, wait_s = self._transport, self._workers.limits.worker_wait_s
        work, results, control = address.ports
        advice = ", open these ports in the firewalls on the way, or give --workers N"
        if address.is_loopback:
            key = "make a key (ssbench-master make-key) for --zmq-key-file, or "
            if address.has_key and not address.has_key_of_host:
                key = ""
            advice = (
                f", or give --workers N. {address.ip} can be reached from this host only: for"
                f" workers on other hosts {key}bind another address with --zmq-bind-ip"
            )
        return (
            f"no worker joined within {wait_s:g} s at ports {work}, {results}"
            f" and {control} of {address.ip}{because}; start ssbench-worker processes"
            f" {address.key_hint}{advice}"
        )

    def _offers(self) -> str:
        """How many users each worker offers, the lowest numbers first."""
        workers = self._workers.present.values()
        offers = sorted((w.concurrency, w.name) for w in workers if not w.metrics_only)
        return first_of([f"{name}: {users}" for users, name in offers], _MAX_OFFERS)
