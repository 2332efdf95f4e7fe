"""The comparison with the server's log: it must not be able to agree with anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ssbench.core.columns import RESULT_SCHEMAS, pack_results
from ssbench.core.messages import pack
from ssbench.core.model import ErrorKind, Phase, Result
from ssbench.core.operations import READ
from ssbench.statfile import StatFileWriter
from tests.e2e.faults.agreement import Agreement, agrees_with_log
from tests.report import runs


class Swift:
    """A log, and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def access_log(self) -> Path:
        return self._path


def read(number: int, transaction: str, **changes: object) -> Result:
    return runs.result(number, READ)._replace(
        transaction_id=transaction.encode(), status=200, **changes
    )


def line(transaction: str, method: str = "GET", status: int = 200) -> str:
    return f"{method} /v1/AUTH_test/base_000000/tiny_000001 {status} {transaction} 10\n"


def compared(
    place: Path, results: Sequence[Result], log: Sequence[str], lost: int, *told: str
) -> Agreement:
    (place / "log").write_text("".join(log))
    with StatFileWriter.create(str(place / "stat.gz"), overwrite=True) as writer:
        writer.write(runs.header())
        if results:
            writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], pack(pack_results(results)))
        writer.write(runs.footer(lost=lost, sent=len(results) + lost, warnings=told))
    return agrees_with_log(Swift(place / "log"), "base", place / "stat.gz")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("results", "log", "lost", "others"),
    [
        ([read(1, "tx1"), read(2, "tx2")], [line("tx1"), line("tx2")], 0, 0),
        ([read(1, "tx1")], [line("tx1"), line("tx2-w")], 1, 1),
        ([read(1, "tx1", retries=1)], [line("tx0", status=503), line("tx1")], 0, 0),
        ([read(1, "", error=int(ErrorKind.RESET))._replace(status=0)], [line("tx0")], 0, 1),
        ([read(1, "tx1")], [line("tx1"), line("tx2", "HEAD", 404)], 0, 0),
    ],
    ids=["all", "one lost", "one repeated", "one unanswered", "one looked for"],
)
def test_what_agrees(
    tmp_path: Path, results: Sequence[Result], log: Sequence[str], lost: int, others: int
) -> None:
    agreement = compared(tmp_path, results, log, lost)
    assert agreement.done == sum(1 for result in results if result.transaction_id)
    assert len(agreement.of_worker("-w")) == lost
    assert len(agreement.others) == others


@pytest.mark.parametrize(
    ("results", "log", "lost"),
    [
        ([read(1, "tx1")], [], 0),
        ([read(1, "tx1")], [line("tx1", "PUT")], 0),
        ([read(1, "tx1")], [line("tx1", status=404)], 0),
        ([read(1, "tx1"), read(2, "tx1")], [line("tx1")], 1),
        ([read(1, "tx1"), read(1, "tx2")], [line("tx1"), line("tx2")], 0),
        ([read(1, "tx1")], [line("tx1"), line("tx1")], 1),
        ([read(1, "tx1")], [line("tx1"), line("tx2")], 0),
        ([read(1, "")], [], 0),
    ],
    ids=[
        "nobody asked", "another method", "another status", "one transaction for two",
        "one number for two", "two requests for one", "one too many", "done by no transaction",
    ],
)  # fmt: skip
def test_what_does_not(
    tmp_path: Path, results: Sequence[Result], log: Sequence[str], lost: int
) -> None:
    with pytest.raises(AssertionError):
        compared(tmp_path, results, log, lost)


def test_an_operation_that_may_have_run_twice_is_one_that_a_result_is_of(tmp_path: Path) -> None:
    told = "Up to 2 operations may have run in addition to those counted: no worker"
    log = [line("tx1"), line("tx0-w")]
    assert compared(tmp_path, [read(1, "tx1")], log, 0, told).others
    with pytest.raises(AssertionError):
        compared(tmp_path, [read(1, "tx1")], [*log, line("tx2", "PUT")], 0, told)
