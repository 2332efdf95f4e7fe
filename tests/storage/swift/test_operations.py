"""Operations of the Swift driver on parts, containers and several objects, on scripted responses.

tests/e2e/test_operations.py runs them against the real Swift.
"""

from __future__ import annotations

import json

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.operations import BULK_DELETE, COPY
from tests.contract.stores import driver_on
from tests.fakes.scripted_server import ok

BULK = Job(1, BULK_DELETE, 0, 3, 0, 0, others=(4, 5))


def timing_of(job: Job, *answers: bytes, verify: bool = False) -> Timing:
    """What the driver makes of these responses."""
    with driver_on("swift", *answers, verify=verify) as (store, _):
        timing: Timing = store.actions[job.operation](job, 0)
        return timing


def error_of(job: Job, *answers: bytes, verify: bool = False) -> StorageError:
    with pytest.raises(StorageError) as caught:
        timing_of(job, *answers, verify=verify)
    return caught.value


def bulk(errors: list[list[str]], deleted: int, not_found: int = 0, whole: str = "200 OK") -> bytes:
    said = {"Response Status": whole, "Errors": errors, "Number Deleted": deleted}
    return ok(json.dumps({**said, "Number Not Found": not_found}).encode())


@pytest.mark.parametrize(("answer", "status", "statuses"), [
    (bulk([["ssbench_000000/tiny_000004", "409 Conflict"]], 2, 0, "400 X"), 409, (200, 409, 200)),
    (bulk([["/ssbench_000000/tiny_000004", "503 Busy"]], 1, 1, "400 X"), 503, (200, 503, 200)),
    # It stopped before the end.
    (bulk([["ssbench_000000/tiny_000004", "409 Conflict"]], 1, 0, "400 X"), 409, (0, 409, 0)),
    (bulk([], 2), 200, (0, 0, 0)),
])  # fmt: skip
def test_each_object_of_a_bulk_delete_has_an_outcome(
    answer: bytes, status: int, statuses: tuple[int, ...]
) -> None:
    error = error_of(BULK, answer)
    assert (error.kind, error.status) == (ErrorKind.STATUS, status)
    assert error.timing is not None
    assert error.timing.statuses == statuses


@pytest.mark.parametrize(("whole", "kind"), [
    ("401 Unauthorized", ErrorKind.UNAUTHORIZED), ("502 Bad Gateway", ErrorKind.STATUS),
])  # fmt: skip
def test_a_bulk_delete_that_failed_as_a_whole_is_an_error(whole: str, kind: ErrorKind) -> None:
    error = error_of(BULK, bulk([], 0, 0, whole))
    assert (error.kind, error.status) == (kind, int(whole[:3]))
    assert error.timing is not None


def test_the_etag_of_a_copy_is_checked_under_verify() -> None:
    copy = Job(1, COPY, 0, 3, 2, 500, others=(12,))
    answer = b"HTTP/1.1 201 X\r\nContent-Length: 0\r\nEtag: " + b"0" * 32 + b"\r\n\r\n"
    error = error_of(copy, answer, verify=True)
    assert error.kind is ErrorKind.CORRUPT
    timing = timing_of(copy, answer)
    assert timing.status == 201
