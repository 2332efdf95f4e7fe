"""The users of a store whose driver blocks: a thread each, so that ``user_count`` is concurrency.

The loop hands out jobs and owns all state; a thread only calls the driver. Completed operations
come back in bulk: however many there are, they wake the loop once. Latencies are measured in the
thread, so the way there and back is in none of them.
"""

from __future__ import annotations

import random
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import gevent
from gevent.event import AsyncResult

from ssbench.core.model import Job, Timing
from ssbench.worker.held_jobs import Completed
from ssbench.worker.user_pool import UserPool

#: A thread that completes an operation wakes the loop if so few tasks are left for all threads.
_FEW_TASKS = 4


class _LeaseExpiredError(Exception):
    """A task was not begun, because the worker's lease had expired."""


class _Task(NamedTuple):
    """An attempt for a thread."""

    job: Job
    start_ns: int  #: of the operation; 0: now
    waiter: AsyncResult | None  #: of the greenlet that retries the operation


class _Done(NamedTuple):
    """What came of it."""

    task: _Task
    start_ns: int
    outcome: Any  #: a Timing, or the exception that the driver raised


class ThreadUserPool(UserPool):
    """A UserPool with a thread per user. A thread busy at ``close`` ends after its operation."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._outcomes: deque[_Done | None] = deque()  #: None: a thread has ended
        self._threads = 0  #: that there are to be
        self._living = 0
        #: By group: idle threads; if negative, that many busy ones must end after their operation.
        self._free = [0] * len(self._held.queues)
        self._sizes = [0] * len(self._held.queues)  #: users by group
        self._arrived = self._hub.loop.async_()
        self._arrived.start(self._collect)

    def resize(self) -> None:
        """Follow ``HeldJobs.users``; threads above it end with their current operation."""
        change = sum(self._held.users) - self._threads
        if not sum(self._held.users):
            self._recall()  # no thread will begin these
        for _ in range(change):
            self._start_thread()
        for _ in range(-change):
            self._tasks.put(None)
        self._threads += change
        for group, users in enumerate(self._held.users):
            self._free[group] += users - self._sizes[group]
        self._sizes = [*self._held.users]
        self.start_jobs()

    def _start_thread(self) -> None:
        Thread(target=self._work, name="ssbench-user", daemon=True).start()
        self._living += 1

    def _work(self) -> None:
        """One user's thread."""
        clock, held, tasks = self._clock, self._held, self._tasks
        outcomes, notify = self._outcomes, self._arrived.send
        while (task := tasks.get()) is not None:
            start_ns = task.start_ns or clock()
            begins = task.start_ns or start_ns <= held.lease_expires_ns
            outcome = self._call_driver(task.job, start_ns) if begins else _LeaseExpiredError()
            outcomes.append(_Done(task, start_ns, outcome))
            # The loop need not know as long as there are jobs, which also end here soon.
            if tasks.qsize() <= _FEW_TASKS or type(outcome) is not Timing:
                notify()
        outcomes.append(None)
        notify()

    def close(self) -> None:
        if not self.closed:
            self._recall()
        super().close()
        self._close_watcher()

    def tick(self) -> None:
        self._collect()
        if self.closed:
            return
        super().tick()
        # The store has become slow, and what threads will not begin soon is better returned.
        if self._tasks.qsize() > self._threads + 2 * self._held.quick:
            self._recall()
            self.start_jobs()

    def _recall(self) -> None:
        """Put the jobs that no thread has begun back into the queue."""
        jobs: list[Job] = []
        others: list[_Task | None] = []
        with suppress(Empty):
            while True:
                task = self._tasks.get_nowait()
                if task is None or task.waiter:
                    others.append(task)
                else:
                    jobs.append(task.job)
        for task in others:
            self._tasks.put(task)
        for job in reversed(jobs):
            self._held.queues[job.group].appendleft(job)
            self._held.busy -= 1
            self._free[job.group] += 1

    def _close_watcher(self) -> None:
        if not self._living:  # no thread can call it any more
            self._arrived.close()

    def _wake_next(self, group: int) -> None:
        """Hand out queued jobs of a group to its free threads.

        With a quick store, more: those that it does in 10 ms, so that threads do not wait for the
        loop. Not with several groups: one group's threads would delay another's.
        """
        held, queue = self._held, self._held.queues[group]
        quick = self._threads and not (self._think_s or self._bandwidth) and len(held.queues) == 1
        ahead = held.quick if quick else 0
        while queue and self._free[group] + ahead > 0 and not self.closed:
            if self._clock() > held.lease_expires_ns:
                self._expire_lease()
                return
            wait_s = self._bandwidth.wait_s(queue[0]) if self._bandwidth else 0.0
            if wait_s:
                if not self._paying[group]:
                    self._paying[group] = True
                    gevent.spawn_later(wait_s, self._end_wait, group)
                return
            self._free[group] -= 1
            held.busy += 1
            self._tasks.put(_Task(queue.popleft(), 0, None))

    def _collect(self) -> None:
        """Take what the threads have completed since the last time."""
        outcomes, held = self._outcomes, self._held
        while outcomes:
            done = outcomes.popleft()
            if done is None:
                self._living -= 1
            elif done.task.waiter is not None:
                done.task.waiter.set(done.outcome)
            elif type(done.outcome) is _LeaseExpiredError:
                if not self.closed:
                    self._expire_lease()
            elif type(done.outcome) is Timing:
                completed = (done.task.job, done.start_ns, done.outcome)
                self._complete(completed, done.task.job.group)
            else:
                gevent.spawn(self._recover_in_greenlet, done)
        if self.closed:
            self._close_watcher()
            return
        self.start_jobs()
        if not all(held.queues) and not held.delayed:
            self._fetch_and_flush()
        elif len(held.finished) >= self._enough:
            self._schedule_flush()

    def _complete(self, completed: Completed, group: int) -> None:
        held = self._held
        held.busy -= 1
        if self.closed:
            return
        held.finished.append(completed)
        if self._think_s:
            pause_s = random.uniform(*self._think_s)  # nosec B311 # a pause
            gevent.spawn_later(pause_s, self._end_pause, group)
        else:
            self._free[group] += 1

    def _end_wait(self, group: int) -> None:
        self._paying[group] = False
        self._wake_next(group)

    def _end_pause(self, group: int) -> None:
        self._free[group] += 1
        self._wake_next(group)

    def _recover_in_greenlet(self, done: _Done) -> None:
        job = done.task.job
        self._complete(self._recover(job, done.start_ns, done.outcome), job.group)
        if not self.closed:
            self._collect()

    def _attempt(self, job: Job, start_ns: int) -> object:
        waiter: AsyncResult = AsyncResult()
        self._tasks.put(_Task(job, start_ns, waiter))
        if not self._threads:  # the users went away between two attempts
            self._start_thread()
            self._tasks.put(None)
        return waiter.get()
