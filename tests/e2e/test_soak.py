"""Half a minute of what ``make soak`` does for half an hour."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.soak.faults import KINDS
from benchmarks.soak.soak import NO_FAULT
from tests.e2e.commands import Commands


@pytest.mark.slow
def test_a_soak_test_of_half_a_minute(commands: Commands, tmp_path: Path) -> None:
    soak = commands.start(["-m", "benchmarks.soak", "--minutes", "0.5", "--seed", "3"])
    ended = soak.wait(160)
    assert ended.status == 0, ended.out + ended.err
    assert ended.out.splitlines()[-1] == "all is accounted for"
    times = {kind: int(n) for kind, n in re.findall(r"^(\w+) +(\d+) +[\d.]+ +\d+", ended.out, re.M)}
    assert times.keys() == {*KINDS, NO_FAULT}
    assert sum(times.values()) >= 3
    sums = re.search(
        r"operations: (\d+) sent = (\d+) done \+ (\d+) failed \+ (\d+) lost", ended.out
    )
    assert sums, ended.out
    sent, done, failed, lost = map(int, sums.groups())
    assert sent == done + failed + lost > 100
    assert f"server's log: {done} of {done} done operations" in ended.out
    # Nothing of it is left when all was well.
    assert not list(tmp_path.glob("ssbench-soak-*"))
