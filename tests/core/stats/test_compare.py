"""Runs side by side."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ssbench.core.records import RunHeader
from ssbench.core.stats.compare import (
    ChangeVerdict,
    Measure,
    Row,
    SettingDifference,
    compare,
    unlike,
)
from ssbench.core.stats.series import Second
from tests.core.stats.synthetic import MEDIAN_NS, seconds_of
from tests.report import runs

NOISE, REAL, UNKNOWN = ChangeVerdict.NOISE, ChangeVerdict.REAL, ChangeVerdict.UNKNOWN
RATE, P50, P99 = Measure("rate"), Measure("service", 50.0), Measure("service", 99.0)


def rows_of(*sides: list[Second], **options: Any) -> dict[Measure, Row]:
    options = {"resamples": 200, "percents": (50.0, 99.0), **options}
    return {row.measure: row for row in compare(sides, random.Random(1), **options)}


def test_like_runs_differ_by_no_more_than_noise() -> None:
    """At 99 %, of 25 pairs with four measures each, hardly any is called different."""
    rng = random.Random(4)
    real = 0
    for _ in range(25):
        sides = [seconds_of(rng, 60, lasting=0.3, samples=30) for _side in range(2)]
        rows = rows_of(*sides)
        assert {row.changes[0].verdict for row in rows.values()} <= {NOISE, REAL}
        real += sum(row.changes[0].verdict is REAL for row in rows.values())
    assert real <= 5


def test_a_tenth_apart_is_more_than_noise() -> None:
    rng = random.Random(4)
    base = seconds_of(rng, 60, samples=100)
    rows = rows_of(base, seconds_of(rng, 60, rate=1100, slower=0.9, samples=100))
    for measure, ratio in ((RATE, 1.1), (Measure("throughput"), 1.1), (P50, 0.9), (P99, 0.9)):
        (change,) = rows[measure].changes
        assert change.verdict is REAL
        assert change.low is not None
        assert change.high is not None
        assert change.low < ratio < change.high
        assert change.ratio == pytest.approx(ratio, rel=0.06)


def test_figures_stand_side_by_side_with_their_intervals() -> None:
    rng = random.Random(4)
    rows = rows_of(*(seconds_of(rng, 30, rate=rate, samples=50) for rate in (500, 500, 800)))
    for rate, estimate in zip((500, 500, 800), rows[RATE].estimates, strict=True):
        assert estimate.value == pytest.approx(rate, rel=0.04)
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= estimate.value <= estimate.high
    assert rows[P50].estimates[0].value == pytest.approx(MEDIAN_NS, rel=0.1)
    assert [change.verdict for change in rows[RATE].changes] == [NOISE, REAL]


def test_a_change_that_nobody_would_mind_is_noise_however_sure_it_is() -> None:
    rng = random.Random(4)
    like = [seconds_of(rng, 60, rate=rate, spread=0, samples=20) for rate in (1000, 1001)]
    (change,) = rows_of(*like)[RATE].changes
    assert change.low == change.high == pytest.approx(1.001)
    assert change.verdict is NOISE


def test_too_little_data_is_told() -> None:
    rng = random.Random(4)
    rows = rows_of(seconds_of(rng, 9), seconds_of(rng, 60, rate=2000))
    assert rows[RATE].changes[0].verdict is UNKNOWN
    rows = rows_of(*(seconds_of(rng, 60, samples=10, slower=by) for by in (1, 3)))
    assert rows[P50].changes[0].verdict is REAL
    assert rows[P99].changes[0].verdict is UNKNOWN  # hangs on 6 values


def test_runs_without_a_success_can_be_compared() -> None:
    nothing = seconds_of(random.Random(4), 30, rate=0)
    rows = rows_of(nothing, seconds_of(random.Random(4), 30), [])
    assert rows[RATE].estimates[0].value == 0
    assert [change.verdict for change in rows[RATE].changes] == [UNKNOWN, UNKNOWN]
    assert rows[P50].estimates[0].value is rows[P50].estimates[2].value is None
    assert {row.measure for row in compare([[], []], random.Random(1))} == {
        RATE, Measure("throughput"),
    }  # fmt: skip


def test_response_times_are_compared_where_there_are_some() -> None:
    rng = random.Random(4)
    rows = rows_of(*(seconds_of(rng, 20, samples=50, due=True) for _ in range(2)))
    assert rows[Measure("response", 50.0)].estimates[0].value == pytest.approx(
        2 * MEDIAN_NS, rel=0.1
    )
    assert Measure("response", 50.0) not in rows_of(*([seconds_of(rng, 20)] * 2))


def test_the_same_seed_gives_the_same_intervals() -> None:
    sides = [seconds_of(random.Random(n), 20, samples=20) for n in range(2)]
    assert rows_of(*sides) == rows_of(*sides)


def header(scenario: dict[str, Any] | None = None, **changes: Any) -> RunHeader:
    return runs.header(scenario={**runs.SCENARIO, **(scenario or {})}, **changes)


def test_settings_that_differ_are_named_scenarios_first() -> None:
    sizes: Any = [dict(size) for size in runs.SCENARIO["sizes"]]  # type: ignore[attr-defined]
    sizes[1]["size_max"] = 50000
    sizes.append({"name": "big"})
    a = header(seed=1, versions={"python": "3.11"})
    b = header(
        {"sizes": sizes, "crud_profile": [1, 2, 3, 4], "seed": 5},
        seed=5,
        driver="noop",
        versions={"python": "3.12", "zmq": "4"},
        ssbench_version="2",
    )
    assert unlike([a, b]) == [
        SettingDifference("sizes[1].size_max", (40000, 50000), of_scenario=True),
        SettingDifference("crud_profile", ([10, 75, 15, 0], [1, 2, 3, 4]), of_scenario=True),
        SettingDifference("sizes[2].name", (None, "big"), of_scenario=True),
        SettingDifference("driver", ("swift", "noop"), of_scenario=False),
        SettingDifference("ssbench_version", ("1.0.0", "2"), of_scenario=False),
        SettingDifference("versions.python", ("3.11", "3.12"), of_scenario=False),
        SettingDifference("seed", (1, 5), of_scenario=False),
        SettingDifference("versions.zmq", (None, "4"), of_scenario=False),
    ]


def test_like_settings_have_nothing_to_name() -> None:
    assert unlike([header(), header(), header()]) == unlike([]) == []


def test_scenarios_nested_without_end_are_compared_as_a_whole() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"x": deep}
    (found,) = unlike([header({"deep": deep}), header({"deep": {"x": 2}})])[:1]
    assert found.key.startswith("deep.x")
