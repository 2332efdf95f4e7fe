"""A naive second picture of a run phase: sets and lists, as slow and plain as can be."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ssbench.core.model import Job, SizeClass
from ssbench.core.operations import CREATE, DELETE, READ, UPDATE, row_of

Key = tuple[int, int]  #: (size class, object)


@dataclass
class RunModel:
    """What must be true of the jobs of a run, given what became of those before."""

    sizes: list[SizeClass]
    verify: bool = False
    delete_after: int | None = None
    open: set[Key] = field(init=False)
    perhaps: set[Key] = field(default_factory=set)  #: created and not known to be gone
    content: dict[Key, tuple[int, int]] = field(default_factory=dict)  #: version, size
    expiry_s: dict[Key, float] = field(default_factory=dict)
    in_flight: list[tuple[Job, float]] = field(default_factory=list)
    seen: set[Key] = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.open = {
            (index, number)
            for index, size in enumerate(self.sizes)
            for number in range(size.initial_files)
        }
        self.seen = set(self.open)

    def on(self, key: Key) -> list[int]:
        """The operations in flight on an object."""
        return [job.operation for job, _ in self.in_flight if key_of(job) == key]

    def taken(self, job: Job, now_s: float) -> None:
        """Hold a job against the rules, then count it in."""
        key = key_of(job)
        size = self.sizes[job.size_class]
        assert job.operation in dict(size.profile), "only what the profile has"
        if job.operation == CREATE:
            assert key not in self.seen, "a name is used once"
            self.seen.add(key)
            self.perhaps.add(key)
        else:
            assert key in self.open, f"{row_of(job.operation).name} of an object that isn't there"
            assert now_s < self.expiry_s.get(key, float("inf")), "an object past its time"
            self._check_company(job, self.on(key))
        if job.operation in (CREATE, UPDATE):
            assert size.size_min <= job.size <= size.size_max
        if job.operation == DELETE:
            self.open.remove(key)
        self.in_flight.append((job, now_s))
        self.counts["taken"] += 1

    def _check_company(self, job: Job, others: list[int]) -> None:
        if job.operation == DELETE:
            assert not others, "a DELETE goes out when nothing else is in flight on its object"
        if self.verify and job.operation == READ:
            assert UPDATE not in others
            assert (job.version, job.size) == self.content.get(key_of(job), (0, job.size))
        if self.verify and job.operation == UPDATE:
            assert not others
            assert job.version == self.content.get(key_of(job), (0, 0))[0] + 1

    def succeeded(self, at: int) -> Job:
        job, taken_s = self._over(at, "succeeded")
        key = key_of(job)
        if job.operation in (CREATE, UPDATE):
            self.content[key] = (job.version, job.size)
            if self.delete_after:
                until_s = int(taken_s) + self.delete_after
                self.expiry_s[key] = max(until_s, self.expiry_s.get(key, 0))
        if job.operation == CREATE:
            self.open.add(key)
        if job.operation == DELETE:
            self.perhaps.discard(key)
        return job

    def did_not_happen(self, at: int, how: str) -> Job:
        job, _ = self._over(at, how)
        if job.operation == CREATE:
            self.perhaps.discard(key_of(job))
        if job.operation == DELETE:
            self.open.add(key_of(job))
        return job

    def nobody_knows(self, at: int, how: str) -> Job:
        job, _ = self._over(at, how)
        if job.operation != READ or how == "lost":
            self.open.discard(key_of(job))
        return job

    def _over(self, at: int, how: str) -> tuple[Job, float]:
        self.counts[how] += 1
        return self.in_flight.pop(at)

    def counts_add_up(self) -> bool:
        counted = sum(self.counts.values()) - self.counts["taken"]
        return self.counts["taken"] == counted + len(self.in_flight)


def key_of(job: Job) -> Key:
    return job.size_class, job.object
