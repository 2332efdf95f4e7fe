"""A series of runs: a sweep, or the search of find-limit."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from msgspec.structs import replace

from ssbench.core.stats.headroom import Bottleneck
from ssbench.core.stats.steps import Search, Step
from ssbench.core.stats.thresholds import Threshold, ThresholdResult
from ssbench.report import render, series_head, series_row
from ssbench.report.series import SeriesSettings, of_series
from tests.report.runs import MS

PERCENTILES = (50.0, 99.9, 100.0)
SLO = Threshold.parse("p99 < 50ms")
NOTHING: dict[float, float | None] = dict.fromkeys(PERCENTILES)


def step(load: float = 20, *, kept: bool | None = None) -> Step:
    verdicts = () if kept is None else (ThresholdResult(SLO, 61 * MS, passed=kept),)
    return Step(
        load=load, path=f"x.users{load:g}.stat.gz", ended="complete", seconds=30.04,
        operations=30_000, errors=2, lost=0, late=0, rate_per_s=99.87, bytes_per_s=12_345_678.0,
        service={50.0: 20 * MS, 99.9: 33.25 * MS, 100.0: 40 * MS}, response=NOTHING,
        verdicts=verdicts,
    )  # fmt: skip


class Series:
    """The reports of a series, in every format."""

    def __init__(self, over: str = "users", **changes: Any) -> None:
        self.settings = replace(SeriesSettings("own", over, PERCENTILES), **changes)

    def head(self) -> str:
        return series_head(of_series(self.settings, [step()]), None)

    def row(self, made: Step) -> str:
        return series_row(of_series(self.settings, [made]), None)

    def text(self, *steps: Step, complete: bool = True) -> str:
        """With --wide, without its summary."""
        text = render(of_series(self.settings, steps, complete=complete), "wide")
        return text.partition("\nThroughput  ")[0]

    def csv(self, *steps: Step) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(render(of_series(self.settings, steps), "csv"))))

    def json(self, *steps: Step) -> Any:
        return json.loads(render(of_series(self.settings, steps), "json"))


def test_without_a_store_the_table_says_so_and_has_no_throughput() -> None:
    steps = [replace(step(), no_store=True, bytes_per_s=None)]
    text = Series().text(*steps)
    assert "\n\nNote: No store was involved (--noop)" in text
    assert "  N/A" in text
    assert "No store" not in Series().text(step())
    (row,) = Series().csv(*steps)
    assert (row["store_involved"], row["bytes_per_s"]) == ("0", "")
    (record,) = Series().json(*steps)["steps"]
    assert (record["store_involved"], record["bytes_per_s"]) == (0, None)


def test_a_rate_has_response_times() -> None:
    open_loop = replace(step(250.5), response={50.0: 25 * MS, 99.9: 35 * MS, 100.0: 45 * MS})
    assert "response time, from due" in Series("rate").head()
    assert "Rate/s" in Series("rate").head()
    row = Series("rate").row(open_loop)
    assert row.split()[0] == "250.5"
    assert row.split()[-3:] == ["25.000", "35.000", "45.000"]


def test_users_at_a_rate_have_response_times() -> None:
    open_loop = replace(step(), response={50.0: 25 * MS, 99.9: 35 * MS, 100.0: 45 * MS})
    assert "(latencies in ms: response time, from due)" in Series("users").text(open_loop)


def test_unknown_figures_are_na() -> None:
    nothing = replace(
        step(), seconds=None, operations=0, rate_per_s=None, bytes_per_s=None, service=NOTHING
    )
    assert Series().row(nothing).split() == ["20", "N/A", "0", "2", *["N/A"] * 5]


def test_remarks_of_a_row() -> None:
    odd = replace(step(), ended="failed", lost=3, late=7)
    assert Series().row(odd).rstrip().endswith("40.000  3 lost; 7 never started; run failed")
    judged = Series(thresholds=(SLO,))
    assert judged.row(step(kept=True)).endswith("  met\n")
    assert judged.row(step(kept=False)).endswith("  missed p99 < 50ms\n")
    assert judged.row(replace(step(kept=True), operations=0)).endswith("  no result\n")
    assert "Thresholds: p99 < 50ms" in judged.head()
    nothing = replace(step(kept=False), operations=0, ended="interrupted")
    assert judged.row(nothing).endswith("  run interrupted\n")
    ours = replace(step(kept=False), bottleneck=Bottleneck.GENERATOR)
    assert judged.row(ours).endswith("  the load generator was the bottleneck; missed p99 < 50ms\n")


def test_what_does_not_fit_100_columns_follows_as_a_remark() -> None:
    texts = ("p99(READ) < 50ms", "errors < 1%", "rate > 1/s", "throughput > 1MB/s")
    slos = tuple(map(Threshold.parse, texts))
    values = (61.5 * MS, 0.25, 99.0, 5e6)
    verdicts = [ThresholdResult(*each, passed=True) for each in zip(slos, values, strict=True)]
    made = replace(step(), verdicts=tuple(verdicts), service={**step().service, 100.0: 1.23456e10})
    report = of_series(SeriesSettings("own", "users", PERCENTILES, slos), [made])
    assert series_head(report).splitlines()[-1].split() == [
        "Users", "Count", "Errors", "Ops/s", "MB/s", "p50", "p99.9", "max", "p99(READ)", "errors",
        "rate",
    ]  # fmt: skip
    row, more = series_row(report).splitlines()
    assert row.endswith("33.250   12,346    61.5 ms  0.25 %    99/s"), "12 s have no decimals"
    assert more == "          throughput 5 MB/s; met"
    wide = series_row(report, None)
    assert wide.endswith("99/s      5 MB/s  met\n")
    assert wide.split()[1] == "30.0", "seconds"


def searched(*outcomes: tuple[float, bool], most: float = 100, confirm: int = 0) -> str:
    search = Search(outcomes[0][0], most, confirm=confirm)
    for load, kept in outcomes:
        search.record(load, kept=kept)
    series, made = Series(thresholds=(SLO,), search=search), step(kept=True)
    text = series.text(made, complete=search.next is None)
    return text.removeprefix(series.head() + series.row(made))


def test_the_result_of_a_search_is_below_the_rows() -> None:
    assert Series().text(step()) == Series().head() + Series().row(step())
    assert searched((1, True), (2, False)) == (
        "\nHighest load that met p99 < 50ms: 1 user\nLowest load that missed it: 2 users\n"
    )
    assert searched((1, False)) == (
        "\nNo load met p99 < 50ms\nLowest load that missed it: 1 user\n"
    )
    assert searched((1, True), most=1).splitlines()[-1] == (
        "The limit may be higher: nothing above 1 user was tried (--max-users)"
    )
    assert searched((8, True), (16, False)).splitlines()[1] == ("The search was ended early:")
    assert searched((1, True), (2, False), (2, True), (2, False), (1, True), confirm=1) == (
        "\nHighest load that met p99 < 50ms: 1 user (in 2 of 2 runs)\n"
        "Lowest load that missed it: 2 users (in 2 of 3 runs)\n"
        "By all runs the limit lies between 1 user and the highest that was tried\n"
    )


def test_names_are_escaped() -> None:
    assert "\x1b" not in Series(name="a\x1bb").head()
    assert Series().csv(replace(step(), path="a\x1bb"))[0]["stats_file"] == "a\\x1bb"


def test_a_step_with_missing_users_is_not_counted() -> None:
    short = replace(
        step(64), users_asked=64, users_ran=4, verdicts=(), rate_per_s=None, bytes_per_s=None,
        service=NOTHING,
    )  # fmt: skip
    judged = Series(thresholds=(SLO,))
    row = judged.row(short)
    assert row.split()[:3] == ["4", "of", "64"]
    assert row.split()[6:11] == ["N/A"] * 5
    assert row.endswith("  only 4 of 64 users ran: not counted\n")
    (made,) = judged.csv(short)
    assert (made["users"], made["users_ran"], made["counts"], made["kept"]) == ("64", "4", "0", "")
    (found,) = judged.json(short)["steps"]
    assert (found["users_ran"], found["counts"], found["kept"]) == (4, 0, None)
    assert judged.json(step(64, kept=True))["steps"][0]["counts"] == 1


def test_the_bound_of_a_search_is_named() -> None:
    search = Search(1, 100)
    search.record(1, kept=True)
    search.limit(2)
    search.record(2, kept=True)
    made = Series(search=search, thresholds=(SLO,))
    assert made.text(step(kept=True)).splitlines()[-1] == (
        "The limit may be higher: the workers can run only 2 users"
        " (more workers, or a larger -c of ssbench-worker)"
    )
    assert made.json(step(kept=True))["capped_by"] == "workers"


def test_each_figure_that_is_judged_has_a_column() -> None:
    """Not the p99 of all operations beside a verdict on the p99 of READs."""
    reads, errors = Threshold.parse("p99(READ) < 50ms"), Threshold.parse("errors < 1%")
    judged = Series(thresholds=(reads, SLO, errors, Threshold.parse("max < 1s")))
    verdicts = tuple(
        ThresholdResult(threshold, actual, passed=actual < threshold.limit)
        for threshold, actual in zip(
            judged.settings.thresholds, (61.5 * MS, 33 * MS, 0.25, 40 * MS), strict=True
        )
    )
    made = replace(step(), verdicts=verdicts)
    head, row = judged.head().splitlines()[-1], judged.row(made)
    assert head.split()[-4:] == ["max", "p99(READ)", "p99", "errors"], "max stands there already"
    shown = ["61.5", "ms", "33", "ms", "0.25", "%", "missed", "p99(READ)", "<", "50ms"]
    assert row.split()[-len(shown) :] == shown
    assert len(row.partition("  missed")[0]) == len(head)
    (cells,) = judged.csv(made)
    assert cells["threshold_1"] == "p99(READ) < 50ms"
    assert (cells["threshold_1_passed"], cells["threshold_1_actual"]) == ("0", "61.5")
    (found,) = judged.json(made)["steps"]
    assert [each["actual"] for each in found["judged"]] == [61.5, 33, 0.25, 0.04]
    assert judged.row(replace(made, verdicts=())).count("N/A") == 3
