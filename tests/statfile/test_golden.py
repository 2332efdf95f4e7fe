"""Stat files that earlier versions wrote give the reports that these versions made of them.

The files of format 1 were written by the last commit before format 2: runs without a store and
against the embedded Swift, and copies of them that are damaged or cut off.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ssbench.cli.master import main
from tests.golden import compare

FILES = sorted(
    f"format-1/{path.name.removesuffix('.stat.gz')}"
    for path in (compare.FOLDER / "format-1").glob("*.stat.gz")
)
INCOMPLETE = ("cut", "damaged")


@pytest.mark.parametrize("kind", ["txt", "csv", "json"])
@pytest.mark.parametrize("name", FILES)
def test_a_report_stays_as_it_was(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report"
    monkeypatch.chdir(compare.FOLDER)  # the report names the file
    words = ["report-scenario", "-q", "-s", f"{name}.stat.gz"]
    words += ["-f", str(report), "--pctile", "95", "--pctile", "99"]
    status = main(words + ([] if kind == "txt" else [f"--{kind}"]))
    assert status == (1 if name.endswith(INCOMPLETE) else 0)
    compare.check(f"{name}.report.{kind}", report.read_text())
