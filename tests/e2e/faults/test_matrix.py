"""The table itself: it must not be able to flatter."""

from __future__ import annotations

import pytest

from ssbench.core.operations import READ
from tests.e2e.faults.matrix import Account, Row, table
from tests.report import runs


def test_wrong_sums_are_not_accepted() -> None:
    records = [runs.header(), runs.batch([runs.result(1, READ)])]
    row = Row("nothing")
    assert row.accounted(runs.stats_of([*records, runs.footer(sent=3, lost=2)])) == Account(
        3, 1, 0, 2
    )
    with pytest.raises(AssertionError):
        row.accounted(runs.stats_of([*records, runs.footer(sent=3)]))
    with pytest.raises(AssertionError):
        row.accounted(runs.stats_of(records))
    assert [str(account) for account in row.accounts] == ["3 = 1 + 0 + 2"]


def test_unseen_faults_are_not_shown() -> None:
    text = table([Row("one"), Row("two", seen=["a", "b"], recovered_s=1.25, ended="passed")])
    assert [line.split("|")[2:6] for line in text.replace(" ", "").splitlines()[2:]] == [
        ["-", "-", "-", "notrun"],
        ["a;b", "-", "1.2", "passed"],
    ]
