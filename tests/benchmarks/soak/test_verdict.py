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
from tests.report import runs

HEADER = RunHeader("abc", 1e9, "1", {}, {"user_count": 1}, {}, 1, "swift")
READS = [b"t1", b"t2", b"t3"]
LOG = [(identifier, Answer("GET", "tiny_000001", 200)) for identifier in READS]


def result(number: int, identifier: bytes, error: int = 0) -> Result:
    failed = {"status": 503, "error": error, "detail": "503"} if error else {}
    return runs.result(
        number, READ, object=1, start_ns=number * 10**9, headers_ns=5, first_byte_ns=5,
        last_byte_ns=9, bytes_moved=1, transaction_id=identifier, **failed,
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


@pytest.mark.parametrize("answer", [Answer("PUT", "x", 201), Answer("GET", "x", 503)])
def test_results_that_differ_from_the_log(path: Path, answer: Answer) -> None:
    sums = accounts(three(path), [(b"t1", answer), *LOG[1:]])
    assert sums.not_logged == 1


OF_NONE = (b"t9", Answer("DELETE", "tiny_000001", 204))  #: a request without a result
OK_READS = [result(number, identifier) for number, identifier in enumerate(READS)]


@pytest.mark.parametrize(
    ("results", "sent", "lost", "log", "fault"),
    [
        (OK_READS, 3, 0, LOG[1:], "1 operations were done that the server's log doesn't have"),
        (OK_READS, 3, 0, [*LOG, OF_NONE], "did 1 operations that no result has, above 0"),
        (OK_READS, 4, 1, [*LOG, OF_NONE], ""),  # a lost operation may have been done
        (
            [result(1, b"t1"), result(2, b"t2", ErrorKind.STATUS)], 4, 1, LOG[:1],
            "4 sent, but 1 done, 1 failed and 1 lost",
        ),
        (
            [result(1, b"t1"), result(2, b"t1")], 2, 0, LOG[:1],
            "1 transaction ids are of more than one operation",
        ),
        ([result(1, b"")], 1, 0, [], "1 operations were done without a transaction id"),
    ],
)  # fmt: skip
def test_what_both_sides_say_is_compared(
    results: list[Result],
    sent: int,
    lost: int,
    log: list[tuple[bytes, Answer]],
    fault: str,
    path: Path,
) -> None:
    said = wrong(accounts(written(path, results, sent=sent, lost=lost), log))
    assert fault in said if fault else said == ""


def test_a_file_that_is_cut_off(path: Path) -> None:
    three(path).write_bytes(path.read_bytes()[:-30])
    assert "the stat file is not complete" in wrong(accounts(path, LOG))
