"""What report-scenario and compare are told."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ssbench.cli.options import master_parser
from ssbench.cli.report_options import compare_options, report_options
from ssbench.core.errors import UsageError
from ssbench.core.operations import READ


def ns(line: str) -> argparse.Namespace:
    return master_parser().parse_args(line.split())


def test_percentiles_come_once_each_in_their_order() -> None:
    line = "report-scenario -s f --pctile 99.9 --pctile 50 --pctile 99.9"
    assert report_options(ns(line)).percentiles == (99.9, 50.0)


@pytest.mark.parametrize(("flag", "name"), [("", "text"), ("--csv", "csv"), ("--json", "json")])
def test_formats_of_a_report(flag: str, name: str) -> None:
    assert report_options(ns(f"report-scenario -s f {flag}")).format == name


def test_thresholds_of_a_report_are_read() -> None:
    line = "report-scenario -s f --threshold errors<1% --threshold rate>5/s --threshold errors<1%"
    assert [str(each) for each in report_options(ns(line)).thresholds] == [
        "errors < 1%", "rate > 5/s",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="soon"):
        report_options(ns("report-scenario -s f --threshold soon"))


@pytest.mark.parametrize("option", ["-f", "-r", "--time-series", "--host-stats"])
def test_a_report_does_not_overwrite_the_results(option: str, tmp_path: Path) -> None:
    (tmp_path / "run.gz").write_bytes(b"results")
    (tmp_path / "link").symlink_to("run.gz")
    for path in ("run.gz", "link"):
        with pytest.raises(UsageError, match=f"{option} .*{path}: this is the stat file"):
            report_options(ns(f"report-scenario -s {tmp_path}/run.gz {option} {tmp_path}/{path}"))
    report_options(ns(f"report-scenario -s {tmp_path}/run.gz {option} {tmp_path}/other"))


def test_a_comparison() -> None:
    chosen = compare_options(ns("compare a b c"))
    assert chosen.stats_files == ("a", "b", "c")
    assert (chosen.operations, chosen.percentiles) == ((), (50.0, 90.0, 95.0, 99.0, 99.9))
    assert (chosen.json, chosen.seed) == (False, 1)
    line = "compare a b --operation read --operation READ --pctile 99 --pctile 5 --pctile 99"
    chosen = compare_options(ns(f"{line} --json --seed 9"))
    assert (chosen.operations, chosen.percentiles) == ((READ,), (5.0, 99.0))
    assert (chosen.json, chosen.seed) == (True, 9)


@pytest.mark.parametrize(
    ("files", "said"),
    [("a", "a: only one stat file"), ("- a -", "-: standard input can be only one")],
)
def test_a_comparison_needs_two(files: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compare_options(ns(f"compare {files}"))
