"""A run of which every operation fails ends early, where that was asked for."""

from __future__ import annotations

import pytest

from ssbench.core.model import ErrorKind
from tests.e2e.faults.hostile import Bench, Fault, failures
from tests.e2e.faults.matrix import Row
from tests.fakes.hostile_swift import HostileSwift
from tests.fakes.server_behaviours import START, saying

CUT = Fault(saying(START, b"half"), ErrorKind.TRUNCATED, "4 of 1000 body", 200)
MANY = 5000
USERS = 4


@pytest.mark.fault("store: all fails, with {option}")
@pytest.mark.parametrize(
    ("option", "most", "words"),
    [
        ("--stop-on-error", 1, "an operation failed"),
        ("--max-consecutive-errors 25", 25, "25 operations in a row failed"),
    ],
)
def test_a_run_ends_early(option: str, most: int, words: str, bench: Bench, row: Row) -> None:
    keys = {"crud_profile": [0, 1, 0, 0], "operation_count": MANY, "user_count": USERS}
    with HostileSwift({"cut": CUT.behaviour}) as swift:
        ended = bench.run(swift, *option.split(), **keys).fine(1)
        account = row.accounted(ended.stats)
        assert failures(ended, {"cut": CUT}) == {CUT.sign: swift.struck["cut"]}
    assert most <= account.failed < MANY / 10
    assert (account.done, account.lost) == (0, 0)
    assert f"(stopped at the error limit: {words}: " in ended.out
    row.saw(f"status 1: {words}; {account.failed} of {MANY} sent")


@pytest.mark.fault("store: every other operation fails, with --max-consecutive-errors 25")
def test_a_run_with_rare_successes_continues(bench: Bench, row: Row) -> None:
    keys = {"crud_profile": [0, 1, 0, 0], "operation_count": 60, "user_count": 1}
    with HostileSwift({"cut": CUT.behaviour, "well": None}) as swift:
        ended = bench.run(swift, "--max-consecutive-errors", 25, **keys)
    account = row.accounted(ended.fine().stats)
    assert (account.sent, account.failed) == (60, 30)
    row.saw("goes on to its end")
