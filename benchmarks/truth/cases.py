"""Known delays, stalls, failures and wrong responses of the server. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

MS = 1_000_000
SECOND = 1000 * MS


class Plan(NamedTuple):
    """When a request gets its response, and which."""

    head_ns: int  #: when the head is to leave, and the first byte of the body with it
    rest_ns: int  #: when the rest is, or its last piece; the same where all leaves at once
    fails: bool  #: answered 503, whatever was asked for
    lies: bool  #: a READ's answer isn't true


@dataclass(frozen=True)
class Case:
    """A way to be slow or wrong.

    :param slow_share: of requests that take ``slow_ms``.
    :param rest_ms: when the body's rest leaves, counted from the request.
    :param pieces: that the rest leaves in, at equal intervals; the last one at ``rest_ms``.
    :param stall_ms: at the end of every ``stall_every_ms``, in which nothing leaves.
    :param per_s: responses a second, one after the other, in the order of requests; 0: no limit.
    :param lie: how READs are lied to: a name of lies.LIES.
    """

    words: str
    delay_ms: float = 0.0
    slow_share: float = 0.0
    slow_ms: float = 0.0
    rest_ms: float = 0.0
    pieces: int = 1
    stall_ms: float = 0.0
    stall_every_ms: float = 0.0
    fail_share: float = 0.0
    per_s: float = 0.0
    lie_share: float = 0.0
    lie: str = "etag"

    def plan(self, got_ns: int, origin_ns: int, rng: Random, free_ns: int = 0) -> Plan:
        """The plan for a request that arrived at ``got_ns``; the server began at ``origin_ns``.

        :param free_ns: when the response to the request before is to leave.
        """
        if self.per_s:
            got_ns = max(got_ns, free_ns) + round(SECOND / self.per_s)
        slow = self.slow_share and rng.random() < self.slow_share
        head_ns = got_ns + round((self.slow_ms if slow else self.delay_ms) * MS)
        rest_ns = max(got_ns + round(self.rest_ms * MS), head_ns)
        return Plan(
            self._after_stall(head_ns, origin_ns),
            self._after_stall(rest_ns, origin_ns),
            bool(self.fail_share) and rng.random() < self.fail_share,
            bool(self.lie_share) and rng.random() < self.lie_share,
        )

    def portions(self, plan: Plan, length: int) -> list[tuple[int, int]]:
        """When each part of a body is sent, and up to which byte; the first part is one byte."""
        step_ns = (plan.rest_ns - plan.head_ns) / self.pieces
        return [
            (round(plan.head_ns + step_ns * n), 1 + (length - 1) * n // self.pieces)
            for n in range(self.pieces + 1)
        ]

    def _after_stall(self, at_ns: int, origin_ns: int) -> int:
        """This time, or the end of the stall that it falls into."""
        if not self.stall_ms:
            return at_ns
        every_ns = round(self.stall_every_ms * MS)
        left_ns = every_ns - (at_ns - origin_ns) % every_ns
        return at_ns + left_ns if left_ns <= self.stall_ms * MS else at_ns


CASES = {
    "fixed": Case("each answer after 20 ms", delay_ms=20),
    "bimodal": Case("5 ms, 1 in 100 at 200 ms", delay_ms=5, slow_share=0.01, slow_ms=200),
    "stalled": Case(
        "20 ms, stalled for 1 s in every 5 s", delay_ms=20, stall_ms=1000, stall_every_ms=5000
    ),
    "split": Case("first byte after 10 ms, the rest after 50 ms", delay_ms=10, rest_ms=50),
    "drip": Case("first byte after 5 ms, the rest in 16 pieces by 21 ms", 5, rest_ms=21, pieces=16),
    "half-second": Case("each answer after 500 ms", delay_ms=500),
    "limited": Case("200/s, one after the other", per_s=200),
    "rare": Case("5 ms, 1 in 2,400 at 7 s", delay_ms=5, slow_share=1 / 2400, slow_ms=7000),
    "failing": Case("20 ms, 2 % answer 503", delay_ms=20, fail_share=0.02),
    "lying": Case("20 ms, 2 % of ETags are no MD5", delay_ms=20, lie_share=0.02),
    "mixed-up": Case("20 ms, 2 % get another's content", delay_ms=20, lie_share=0.02, lie="other"),
    "short": Case("20 ms, 2 % lack their last byte", delay_ms=20, lie_share=0.02, lie="short"),
    "flipped": Case("20 ms, 2 % have a bit flipped", delay_ms=20, lie_share=0.02, lie="bit"),
    "broken": Case("20 ms, 2 % break in the body", delay_ms=20, lie_share=0.02, lie="break"),
    "swift": Case("no delay at all"),
}
