"""Runs of several masters as one: what is added up, what counts, and what does not go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import pytest
from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.core.records import (
    MASTER,
    PhaseRecord,
    Record,
    ResultBatch,
    RunFooter,
    RunHeader,
)
from ssbench.core.stats.merge import Part, check, common_s, end_of_load_ns, merged
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.tally import Basis
from tests.report import runs

SECONDS = {"run_seconds": 10, "operation_count": None}


def lasting(seed: int, later_s: float = 0, rate: int = 50, **settings: Any) -> list[Record]:
    """A run of 10 s that began so much later."""
    records = runs.lasting(10, rate, seed=seed, **{**SECONDS, **settings})
    return [
        replace(record, started_at=record.started_at + later_s)
        if isinstance(record, PhaseRecord)
        else replace(record, sent=10 * rate)
        if isinstance(record, RunFooter)
        else record
        for record in records
    ]


def parts_of(*of_runs: Sequence[Record]) -> list[Part]:
    return [Part.of(f"{name}.stat.gz", each) for name, each in zip("abcdef", of_runs, strict=False)]


def merge(*of_runs: Sequence[Record]) -> RunStats:
    parts = parts_of(*of_runs)
    check(parts)
    return RunStats.of(merged(parts, of_runs), end_of_load_ns(parts))


def faults(*of_runs: Sequence[Record]) -> str:
    with pytest.raises(UsageError) as found:
        check(parts_of(*of_runs))
    return str(found.value)


def changed(records: Sequence[Record], **scenario: Any) -> list[Record]:
    """The run with other keys of its scenario."""
    header = records[0]
    assert isinstance(header, RunHeader)
    return [replace(header, scenario={**header.scenario, **scenario}), *records[1:]]


def test_rates_counts_and_users_of_runs_at_the_same_time_are_added_up() -> None:
    one, other = lasting(1), lasting(2, rate=30)
    stats, single = merge(one, other), RunStats.of(one)
    assert stats.total().count == 500 + 300
    assert single.rate_basis is stats.rate_basis is Basis.SHARE
    assert stats.total().rate_per_s == pytest.approx(80, rel=0.01)
    assert stats.run.scenario.user_count == 8
    assert [users.asked for users in stats.run.stage_users] == [8]
    assert (stats.run.sent, stats.unaccounted, stats.left_out) == (800, 0, 0)
    assert (stats.worker_count, stats.run.complete) == (2, True)
    assert stats.run.ending == "complete"


def test_only_the_time_in_which_all_ran_counts() -> None:
    one, other = lasting(1), lasting(2, later_s=2)
    parts = parts_of(one, other)
    assert common_s(parts) == (8, 12)
    stats = merge(one, other)
    assert stats.total().throughput.seconds == pytest.approx(8)
    assert stats.total().rate_per_s == pytest.approx(100, rel=0.01)
    assert (stats.total().count, stats.left_out) == (800, 200)
    assert (stats.run.scenario.warmup, stats.run.scenario.cooldown) == (2, 2)
    counts = [second.count for second in stats.series.seconds()]
    assert (counts[1], counts[4], counts[11]) == (50, 100, 50)
    assert stats.run.footer is not None
    assert stats.run.footer.run_seconds == one[-1].run_seconds + 2  # type: ignore[union-attr]


def test_each_stage_counts_from_its_last_beginning() -> None:
    keys = {"begins": (0, 5), "stages": [{"seconds": 5, "users": 4}, {"seconds": 5, "users": 4}]}
    stats = merge(lasting(1, **keys), lasting(2, later_s=1, **keys))
    assert stats.stage_count == 2
    assert [stats.stage_seconds(stage) for stage in (0, 1)] == [4, 4]
    assert [users.asked for users in stats.run.stage_users] == [8, 8]


def test_metrics_of_masters_and_workers_are_kept_apart() -> None:
    one, other = (
        [*records[:-1], *(runs.host(index, n) for n in range(9) for index in (MASTER, 0)),
         records[-1]]
        for records in (lasting(1), lasting(2))
    )  # fmt: skip
    found = merge(one, other)
    assert [each.who.worker_id for each in found.hosts.processes()] == [
        "",
        "",
        "alpha",
        "alpha of 0002",
    ]
    assert [use.role for use in found.hosts.use()] == ["2 masters, 2 workers"]


def test_a_run_that_was_cut_off_leaves_all_incomplete() -> None:
    one, other = lasting(1), lasting(2)
    assert merge(one, other[:-1]).run.ending == "cut off"


def test_other_scenarios_are_refused_with_what_differs() -> None:
    one, other = lasting(1), lasting(2)
    assert faults(one, changed(other, run_seconds=20)) == (
        "b.stat.gz: run_seconds is 20, and 10 in a.stat.gz: runs that are merged have the same"
        " scenario"
    )
    assert "rate is " in faults(one, changed(other, rate=20))
    assert "warmup is 3, and 0 in a.stat.gz" in faults(one, changed(other, warmup=3))
    header = other[0]
    assert isinstance(header, RunHeader)
    assert "storage driver is " in faults(one, [replace(header, driver="noop"), *other[1:]])
    free = {"container_base": "mine", "container_count": 7, "user_count": 9, "seed": 3}
    check(parts_of(one, changed(other, **free)))


def test_results_of_other_columns_are_added_up() -> None:
    """A release before or after may know fewer or more."""
    one, other = lasting(1), lasting(2)
    for at, record in enumerate(other):
        if isinstance(record, ResultBatch):
            count, *columns = msgpack.unpackb(record.packed)
            packed = msgpack.packb([count, *columns[:-1], 7])
            names = (*record.names[:-1], "later_release")
            other[at] = replace(record, names=names, packed=packed)
    stats = merge(one, other)
    assert (stats.total().count, stats.unaccounted, stats.run.damage) == (1000, 0, [])


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        (lasting(1), "is the same run as a.stat.gz"),
        (lasting(2, later_s=13), "its load began 3.0 s after that of a.stat.gz had ended"),
        (lasting(2)[:3], "unknown when its load began and ended"),
        (lasting(2)[1:], "has no header"),
    ],
)
def test_runs_that_are_none_of_one_load_are_refused(other: list[Record], fault: str) -> None:
    assert faults(lasting(1), other).startswith(f"b.stat.gz: {fault}")


@pytest.mark.parametrize("keys", [{"user_count": "many"}, {"stages": 3}, {"groups": [1]}])
def test_scenarios_that_cannot_be_added_up_are_refused(keys: dict[str, Any]) -> None:
    one, other = changed(lasting(1), **keys), changed(lasting(2), **keys)
    assert "malformed" in faults(one, other)


def test_endpoints_of_masters_with_other_urls_keep_their_names() -> None:
    stores = ({"urls": ["http://one", "http://two"]}, {"urls": ["http://two", "http://three"]})
    of_runs = [lasting(seed) for seed in (1, 2)]
    for records, store in zip(of_runs, stores, strict=True):
        records[0] = replace(records[0], store=store)  # type: ignore[type-var]
    assert [each.name for each in merge(*of_runs).endpoints()] == ["http://one", "http://two"]
