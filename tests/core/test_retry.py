"""What comes after a failed attempt, as a table."""

from __future__ import annotations

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.operations import CREATE, DELETE, ENSURE, READ, REMOVE, UPDATE, Operation
from ssbench.core.retry import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    NOT_FOUND_PAUSE_S,
    Attempts,
    NextStep,
)

RETRY, GIVE_UP, DONE = NextStep
UNCONNECTED = {
    ErrorKind.CONNECT,
    ErrorKind.CONNECT_TIMEOUT,
    ErrorKind.NAME_LOOKUP,
    ErrorKind.LOAD_GENERATOR,
}


def failed(
    what: int | ErrorKind, *, sent: bool | None = None, reconnects: int | None = None
) -> StorageError:
    """A failed attempt: a status, or a kind without an answer; sent, unless nothing connected."""
    if sent is None:
        sent = what not in UNCONNECTED
    timing = None if reconnects is None else Timing(1, 1, 1, 0, 0, reconnects=reconnects)
    if isinstance(what, ErrorKind):
        return StorageError(what, "broken", timing=timing, sent=sent)
    return StorageError(ErrorKind.STATUS, "refused", status=what, timing=timing, sent=sent)


@pytest.mark.parametrize(
    ("operation", "what", "verdict", "unknown"),
    [
        (READ, 503, RETRY, 0),
        (READ, 429, RETRY, 0),
        (READ, 498, RETRY, 0),
        (READ, 404, RETRY, 0),
        (READ, 500, GIVE_UP, 0),
        (READ, 403, GIVE_UP, 0),
        (READ, 401, GIVE_UP, 0),
        (READ, 412, GIVE_UP, 0),
        (READ, ErrorKind.CONNECT, RETRY, 0),
        (READ, ErrorKind.CONNECT_TIMEOUT, RETRY, 0),
        (READ, ErrorKind.LOAD_GENERATOR, RETRY, 0),
        (READ, ErrorKind.NETWORK_TIMEOUT, RETRY, 0),
        (READ, ErrorKind.RESET, RETRY, 0),
        (READ, ErrorKind.TRUNCATED, RETRY, 0),
        (READ, ErrorKind.DISCONNECTED, RETRY, 0),
        (READ, ErrorKind.OPERATION_TIMEOUT, GIVE_UP, 0),
        (READ, ErrorKind.PROTOCOL, GIVE_UP, 0),
        (READ, ErrorKind.TLS, GIVE_UP, 0),
        (READ, ErrorKind.NAME_LOOKUP, GIVE_UP, 0),
        (READ, ErrorKind.CORRUPT, GIVE_UP, 0),
        (READ, ErrorKind.STALE, GIVE_UP, 0),
        (READ, ErrorKind.INTERNAL, GIVE_UP, 0),
        (CREATE, 503, RETRY, 1),
        (CREATE, 429, RETRY, 0),
        (CREATE, 404, GIVE_UP, 0),
        (CREATE, 422, GIVE_UP, 0),
        (CREATE, 408, GIVE_UP, 1),
        (CREATE, 499, GIVE_UP, 1),
        (CREATE, 500, GIVE_UP, 1),
        (CREATE, ErrorKind.RESET, RETRY, 1),
        (CREATE, ErrorKind.CONNECT, RETRY, 0),
        (CREATE, ErrorKind.CONNECT_TIMEOUT, RETRY, 0),
        (CREATE, ErrorKind.NAME_LOOKUP, GIVE_UP, 0),
        (CREATE, ErrorKind.OPERATION_TIMEOUT, GIVE_UP, 1),
        (UPDATE, 404, RETRY, 0),
        (UPDATE, ErrorKind.NETWORK_TIMEOUT, RETRY, 1),
        (DELETE, 404, RETRY, 0),
        (DELETE, 409, GIVE_UP, 0),
        (DELETE, ErrorKind.RESET, RETRY, 1),
        (DELETE, ErrorKind.DISCONNECTED, RETRY, 1),
        (ENSURE, 404, GIVE_UP, 0),
        (ENSURE, 503, RETRY, 1),
        (REMOVE, 404, DONE, 0),
        (REMOVE, 503, RETRY, 1),
    ],
)
def test_the_first_failure(
    operation: Operation, what: int | ErrorKind, verdict: NextStep, unknown: int
) -> None:
    attempts = Attempts(operation, 10)
    assert attempts.after(failed(what)) is verdict
    assert attempts.unknown == unknown


def test_404_after_a_delete_repeated_by_the_driver_is_a_success() -> None:
    assert Attempts(DELETE, 10).after(failed(404, reconnects=1)) is DONE
    assert Attempts(DELETE, 10).after(failed(404, reconnects=0)) is RETRY


def test_404_after_a_delete_sent_before_an_outage_is_a_success() -> None:
    attempts = Attempts(DELETE, 10)
    assert attempts.after(failed(ErrorKind.CONNECT, sent=True)) is RETRY
    assert attempts.restarted(failed(401)).after(failed(404)) is DONE


@pytest.mark.parametrize("before", [failed(ErrorKind.RESET), failed(503), None])
@pytest.mark.parametrize("reconnects", [0, 1])
def test_404_after_a_renewal_is_a_success_if_an_earlier_delete_may_have_worked(
    before: StorageError | None, reconnects: int
) -> None:
    attempts = Attempts(DELETE, 10)
    if before:
        attempts.after(before)
    attempts = attempts.restarted(failed(401, reconnects=reconnects))
    assert (attempts.retries, attempts.reconnects) == (0, 0)
    assert attempts.after(failed(404)) is (DONE if before or reconnects else RETRY)


def test_a_mutation_repeated_by_the_driver_stays_unknown() -> None:
    attempts = Attempts(DELETE, 0)
    assert attempts.after(failed(403, reconnects=1)) is GIVE_UP
    assert attempts.unknown == 1


@pytest.mark.parametrize(("operation", "unknown"), [(CREATE, 1), (READ, 0)])
@pytest.mark.parametrize("status", [403, 404])
def test_a_mutation_that_was_done_in_part_stays_unknown(
    operation: Operation, unknown: int, status: int
) -> None:
    error = failed(status)
    error.partly_done = True
    attempts = Attempts(operation, 0)
    attempts.after(error)
    assert attempts.unknown == unknown
    assert Attempts(operation, 0).restarted(error).unknown == unknown


def test_pauses_grow_up_to_a_bound_but_not_after_a_404() -> None:
    attempts = Attempts(READ, 10_000)
    pauses = []
    for _ in range(5000):
        assert attempts.after(failed(503)) is RETRY
        pauses.append(attempts.pause_s(failed(503)))
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_S
    attempts.after(failed(404))
    assert attempts.pause_s(failed(404)) == NOT_FOUND_PAUSE_S
