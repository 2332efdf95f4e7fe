"""Decides after a failed attempt: retry, give up, or count it as success. Keeps the counters."""

from __future__ import annotations

from enum import Enum
from operator import add

from msgspec import Struct

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.operations import Effect, NotFound, Operation

#: Responses that ask the client to send fewer requests (Swift: 498 from ratelimit).
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
        ErrorKind.CHANGED,
    }
)
#: 4xx statuses after which a mutation may have happened.
_UNDECIDED_STATUSES = frozenset({408, 499})

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
NOT_FOUND_PAUSE_S = 0.5


class NextStep(Enum):
    RETRY = "retry"
    GIVE_UP = "give up"
    DONE = "done"  #: a success: the object is already gone


class Attempts(Struct):
    """The attempts at one operation so far; the counters of its Result.

    Each request is counted once: the last one as the operation itself, one in ``renewals`` per new
    token, all others here.

    :param max_retries: ``--retries``.
    :param earlier: the ``counters`` of the attempts before the newest token.
    """

    operation: Operation
    max_retries: int
    retries: int = 0
    not_found_retries: int = 0
    rate_limited: int = 0
    reconnects: int = 0
    unknown: int = 0  #: 1 after an attempt that may have changed the store without a response
    earlier: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def counters(self) -> tuple[int, int, int, int]:
        """(retries, not_found_retries, rate_limited, reconnects), those of ``earlier`` included."""
        own = self.retries, self.not_found_retries, self.rate_limited, self.reconnects
        retries, not_found_retries, rate_limited, reconnects = map(add, own, self.earlier)
        return retries, not_found_retries, rate_limited, reconnects

    def after(self, error: StorageError) -> NextStep:
        """Count a failed attempt, and decide what is next."""
        self.reconnects += error.reconnects
        if error.rate_limited or error.status in RATE_LIMITED:
            self.rate_limited += 1
        if self.operation.changes_content and error.partly_done:
            self.unknown = 1
        if error.status == 404:
            return self._after_not_found()
        # A request that the driver repeated had no response the first time.
        unanswered = error.reconnects or (error.sent and leaves_unknown(error.status))
        if self.operation.changes_content and unanswered:
            self.unknown = 1
        retried = error.kind in RETRIED_KINDS or error.status in RETRIED_STATUSES
        if retried and self.retries < self.max_retries:
            self.retries += 1
            return NextStep.RETRY
        return NextStep.GIVE_UP

    def restarted(self, rejected: StorageError) -> Attempts:
        """A fresh set of attempts after new credentials: the retry count starts over.

        ``unknown`` stays: an earlier attempt may have had no response, also the rejected one when
        the driver sent it the first time.
        """
        self.reconnects += rejected.reconnects
        unanswered = self.reconnects or rejected.partly_done
        unknown = self.unknown or (self.operation.changes_content and unanswered)
        return Attempts(
            self.operation,
            self.max_retries,
            unknown=int(bool(unknown)),
            earlier=self.counters,
        )

    def _after_not_found(self) -> NextStep:
        operation = self.operation
        removing = operation.effect in (Effect.REMOVES, Effect.PRUNES)
        # An earlier attempt without response may have deleted it.
        if operation.not_found is NotFound.SUCCESS or (
            removing and (self.unknown or self.reconnects)
        ):
            return NextStep.DONE
        if operation.not_found is NotFound.RETRIED and not self.not_found_retries:
            self.not_found_retries = 1
            return NextStep.RETRY
        return NextStep.GIVE_UP

    def pause_s(self, error: StorageError) -> float:
        """Seconds to wait before the next attempt."""
        if error.status == 404:
            return NOT_FOUND_PAUSE_S
        doublings = min(self.retries - 1, 16)  # 2**thousands exceeds a float
        return float(min(FIRST_PAUSE_S * 2**doublings, LONGEST_PAUSE_S))


def leaves_unknown(status: int) -> bool:
    """Whether a mutation that was sent and failed may have happened.

    :param status: 0: no response. A failure with a 2xx status (a wrong ETag) changed the store.
    """
    return status < 300 or status >= 500 or status in _UNDECIDED_STATUSES
