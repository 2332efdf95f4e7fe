"""What to do after a failed attempt: try again, give up, or call it done.

Pure: one decision at a time, with the counters that a Result will carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from operator import add

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.operations import Effect, NotFound, Operation

#: Answers that ask a client to come back later (Swift: 498 from ratelimit).
RATE_LIMITED = frozenset({429, 498})
RETRIED_STATUSES = RATE_LIMITED | {503}
RETRIED_KINDS = frozenset(
    {
        ErrorKind.CONNECT,
        ErrorKind.CONNECT_TIMEOUT,
        ErrorKind.NETWORK_TIMEOUT,
        ErrorKind.RESET,
        ErrorKind.TRUNCATED,
        ErrorKind.DISCONNECTED,
        ErrorKind.LOAD_GENERATOR,
    }
)
#: 4xx answers after which a mutation may have happened all the same.
_UNDECIDED_STATUSES = frozenset({408, 499})

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
NOT_FOUND_PAUSE_S = 0.5


class NextStep(Enum):
    """What comes of a failed attempt."""

    RETRY = "retry"
    GIVE_UP = "give up"
    DONE = "done"  #: the failure is a success: gone already


@dataclass(slots=True)
class Attempts:
    """The attempts at one operation so far; the counters of its Result.

    Every request that was sent is in one of the counters: one for the operation itself (as a
    success or an error), one in ``renewals`` for each fresh token, all others here.

    :param max_retries: ``--retries``.
    :param earlier: the ``counters`` of the attempts before the newest token.
    """

    operation: Operation
    max_retries: int
    retries: int = 0
    not_found_retries: int = 0
    rate_limited: int = 0
    reconnects: int = 0
    unknown: int = 0  #: 1 after an attempt that may have changed the store unseen
    earlier: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def counters(self) -> tuple[int, int, int, int]:
        """(retries, not_found_retries, rate_limited, reconnects), those of ``earlier`` included."""
        own = self.retries, self.not_found_retries, self.rate_limited, self.reconnects
        retries, not_found_retries, rate_limited, reconnects = map(add, own, self.earlier)
        return retries, not_found_retries, rate_limited, reconnects

    def after(self, error: StorageError) -> NextStep:
        """Count a failed attempt and decide."""
        self.reconnects += error.reconnects
        if error.status in RATE_LIMITED:
            self.rate_limited += 1
        if error.status == 404:
            return self._after_not_found()
        # What the driver repeated had no response the first time.
        unanswered = error.reconnects or (error.sent and leaves_unknown(error.status))
        if self.operation.changes_content and unanswered:
            self.unknown = 1
        retried = error.kind in RETRIED_KINDS or error.status in RETRIED_STATUSES
        if retried and self.retries < self.max_retries:
            self.retries += 1
            return NextStep.RETRY
        return NextStep.GIVE_UP

    def anew(self, refused: StorageError) -> Attempts:
        """Those of the operation as it starts anew, once there is a fresh token.

        They may be as many again as the first ones. What earlier attempts may have done is not
        forgotten: the one before the refusal may have got no answer, and so may the refused one,
        the first time that the driver sent it.
        """
        self.reconnects += refused.reconnects
        unknown = self.unknown or (self.operation.changes_content and self.reconnects)
        return Attempts(
            self.operation,
            self.max_retries,
            unknown=int(bool(unknown)),
            earlier=self.counters,
        )

    def _after_not_found(self) -> NextStep:
        operation = self.operation
        removing = operation.effect is Effect.REMOVES
        # An earlier attempt may have got no answer and done its work.
        if operation.not_found is NotFound.SUCCESS or (
            removing and (self.unknown or self.reconnects)
        ):
            return NextStep.DONE
        if operation.not_found is NotFound.RETRIED and not self.not_found_retries:
            self.not_found_retries = 1
            return NextStep.RETRY
        return NextStep.GIVE_UP

    def pause_s(self, error: StorageError) -> float:
        """How long to wait before the attempt that ``after`` asked for."""
        if error.status == 404:
            return NOT_FOUND_PAUSE_S
        doublings = min(self.retries - 1, 16)  # thousands of them are no float any more
        return float(min(FIRST_PAUSE_S * 2**doublings, LONGEST_PAUSE_S))


def leaves_unknown(status: int) -> bool:
    """Whether a mutation that went out and failed may have happened all the same.

    :param status: of the answer; 0 where none came. A success that is a failure (a wrong ETag) did
        something else than what was asked.
    """
    return status < 300 or status >= 500 or status in _UNDECIDED_STATUSES
