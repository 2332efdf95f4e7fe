"""Jobs that wait for their time at a worker, which hands them over when it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from ssbench.core.model import Job
from ssbench.worker.timer import Timer, make_timer


class DelayQueue:
    """Gives each job back when it is due, in the order of their due times.

    :param origin_ns: what due times count from, on the clock.
    :param on_due: called in the hub with those that are due: it must not wait.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        origin_ns: int,
        on_due: Callable[[list[Job]], None],
        make: Callable[[Callable[[], object]], Timer] = make_timer,
    ) -> None:
        self._clock = clock
        self._origin_ns = origin_ns
        self._on_due = on_due
        self._make_timer = make
        self._timer: Timer | None = None  # a closed loop needs none
        self._heap: list[tuple[int, int, Job]] = []
        self._set_ns = -1  # when the alarm rings, as an offset

    def __len__(self) -> int:
        return len(self._heap)

    def __repr__(self) -> str:
        return f"<DelayQueue of {len(self._heap)} jobs>"

    def add(self, jobs: Sequence[Job]) -> None:
        """Jobs with due times; those that are due already are handed over at once."""
        heap = self._heap
        if not heap:
            heap += [(job.due_ns, job.number, job) for job in jobs]
            heapify(heap)
        else:
            for job in jobs:
                heappush(heap, (job.due_ns, job.number, job))
        self._hand_over()

    def remove_unstarted(self) -> list[int]:
        """Forget all jobs; gives their numbers."""
        numbers = [number for _, number, _ in self._heap]
        self._heap.clear()
        return numbers

    def close(self) -> None:
        """Hand over nothing more."""
        self._heap.clear()
        if self._timer:
            self._timer.close()
            self._timer = None

    def _on_timer(self) -> None:
        self._set_ns = -1
        self._hand_over()

    def _hand_over(self) -> None:
        heap = self._heap
        now_ns = self._clock() - self._origin_ns
        due = []
        while heap and heap[0][0] <= now_ns:
            due.append(heappop(heap)[2])
        if heap and heap[0][0] != self._set_ns:
            self._timer = self._timer or self._make_timer(self._on_timer)
            self._set_ns = heap[0][0]
            self._timer.set(self._set_ns + self._origin_ns)
        if due:
            self._on_due(due)
