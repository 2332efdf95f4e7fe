from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.soak.store import Answer
from benchmarks.soak.verdict import Accounts, accounts
from ssbench.core.columns import RESULT_SCHEMAS, pack_results
from ssbench.core.messages import pack
from ssbench.core.model import ErrorKind, Phase, Result
from ssbench.core.operations import READ
from ssbench.core.records import PhaseRecord, RunFooter, RunHeader, WorkerRecord
from ssbench.statfile import StatFileWriter

HEADER = RunHeader("abc", 1e9, "1", {}, {"user_count": 1}, {}, 1, "swift")
READS = [b"t1", b"t2", b"t3"]
LOG = [(identifier, Answer("GET", "tiny_000001", 200)) for identifier in READS]


def result(number: int, identifier: bytes, error: int = 0) -> Result:
    return Result(
        number=number, operation=READ, size_class=0, object=1, due_ns=-1,
        start_ns=number * 10**9, headers_ns=5, first_byte_ns=5, last_byte_ns=9, bytes_moved=1,
        retries=0, not_found_retries=0, rate_limited=0, reconnects=0, renewals=0, url=0,
        status=503 if error else 200, error=error, unknown=0, transaction_id=identifier,
        detail="503" if error else "",
    )  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stat.gz"


def written(path: Path, results: Sequence[Result], *, sent: int, lost: int = 0) -> Path:
    with StatFileWriter.create(path) as writer:
        writer.write(HEADER)
        writer.write(WorkerRecord(0, "anna", "host", 1, 1, "1"))
        writer.write(PhaseRecord(Phase.RUN, 1e9 + 1, 1))
        writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], pack(pack_results(results)))
        writer.write(RunFooter(1e9 + 9, "complete", "", 5.0, lost=lost, sent=sent))
    return path


def three(path: Path) -> Path:
    return written(path, [result(n, i) for n, i in enumerate(READS)], sent=3)


def wrong(sums: Accounts) -> str:
    return "; ".join(sums.wrong())


def test_a_consistent_run(path: Path) -> None:
    sums = accounts(three(path), LOG)
    assert (sums.sent, len(sums.done), sums.not_logged, sums.unreported) == (3, 3, 0, 0)
    assert sums.last_s == {"anna": pytest.approx(2.0)}
    assert wrong(sums) == ""


def test_results_that_the_server_did_not_log(path: Path) -> None:
    assert "1 operations were done that the server's log doesn't have" in wrong(
        accounts(three(path), LOG[1:])
    )


@pytest.mark.parametrize("answer", [Answer("PUT", "x", 201), Answer("GET", "x", 503)])
def test_results_that_differ_from_the_log(path: Path, answer: Answer) -> None:
    sums = accounts(three(path), [(b"t1", answer), *LOG[1:]])
    assert sums.not_logged == 1


def test_requests_without_a_result(path: Path) -> None:
    more = (b"t9", Answer("DELETE", "tiny_000001", 204))
    assert "did 1 operations that no result has, above 0" in wrong(
        accounts(three(path), [*LOG, more])
    )


def test_a_lost_operation_may_have_been_done(path: Path) -> None:
    written(path, [result(n, i) for n, i in enumerate(READS)], sent=4, lost=1)
    assert wrong(accounts(path, [*LOG, (b"t9", Answer("GET", "x", 200))])) == ""


def test_sums_that_disagree(path: Path) -> None:
    written(path, [result(1, b"t1"), result(2, b"t2", ErrorKind.STATUS)], sent=4, lost=1)
    assert "4 sent, but 1 done, 1 failed and 1 lost" in wrong(accounts(path, LOG[:1]))


def test_an_id_that_two_operations_have(path: Path) -> None:
    written(path, [result(1, b"t1"), result(2, b"t1")], sent=2)
    assert "1 transaction ids are of more than one operation" in wrong(accounts(path, LOG[:1]))


def test_a_result_without_an_id(path: Path) -> None:
    written(path, [result(1, b"")], sent=1)
    assert "1 operations were done without a transaction id" in wrong(accounts(path, []))


def test_a_file_that_is_cut_off(path: Path) -> None:
    three(path).write_bytes(path.read_bytes()[:-30])
    assert "the stat file is not complete" in wrong(accounts(path, LOG))
