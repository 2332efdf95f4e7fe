"""A part of a run: every figure of it is that of a run that did nothing else."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import ssbench
from ssbench.core.errors import UsageError
from ssbench.core.model import Result
from ssbench.core.operations import CREATE, READ
from ssbench.core.records import (
    AddressRecord,
    EventRecord,
    MarkRecord,
    Phase,
    PhaseRecord,
    Record,
    RunHeader,
)
from tests.cli.shell import Shell, stat_file
from tests.report import runs

URLS = ["http://one.example:9000/v1", "http://two.example:9000/v1"]
SIZES = [{"name": "tiny"}, {"name": "large"}]
SECONDS, START_NS = 20, 200 * runs.MS


def rows() -> list[Result]:
    """20 a second; those of odd seconds are slow; every seventh fails."""
    found = []
    for number in range(SECONDS * 20):
        second = number // 20
        kind = runs.failure if number % 7 == 3 else runs.result
        found.append(
            kind(
                number, READ if number % 3 else CREATE, size_class=number % 2, url=number // 5 % 2,
                address=number // 3 % 3,
                start_ns=START_NS + number * 50 * runs.MS,
                last_byte_ns=(20 + 30 * (second % 2) + number % 9) * runs.MS,
            )
        )  # fmt: skip
    return found


ADDRESSES = ("10.0.0.1:80", "10.0.0.2:80")


def records(kept: Callable[[Result, int], bool], run_id: str = "5e1f") -> list[Record]:
    """A run of two workers with the operations of whom this is true: (result, worker)."""
    batches: list[Record] = []
    for index in (0, 1):
        own = [row for row in rows() if row.number // 4 % 2 == index and kept(row, index)]
        batches += [runs.batch(own, worker_index=index)] if own else []
    scenario = {**runs.SCENARIO, "sizes": SIZES, "run_seconds": SECONDS, "operation_count": None}
    return [
        runs.header(scenario=scenario, run_id=run_id, store={"urls": URLS}),
        runs.worker(0, "alpha"),
        runs.worker(1, "beta"),
        PhaseRecord(Phase.RUN, runs.STARTED_AT, 4),
        # A worker numbers its addresses itself; one of the other phases says nothing of these.
        AddressRecord(0, Phase.RUN, ADDRESSES),
        AddressRecord(1, Phase.RUN, ADDRESSES[::-1]),
        AddressRecord(1, Phase.CLEANUP, ("10.9.9.9:80",)),
        MarkRecord(START_NS, "stage", 0, 4),
        *batches,
        *[runs.host(index, second) for second in range(SECONDS) for index in (0, 1)],
        MarkRecord(START_NS + SECONDS * runs.SECOND, "end", 0, 4),
        runs.footer(run_seconds=float(SECONDS)),
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stat_file(tmp_path_factory.mktemp("whole") / "run.stat.gz", records(lambda *_: True))


#: Options, the same in the API, and what is chosen.
PARTS: dict[str, tuple[str, dict[str, Any], Callable[[Result, int], bool]]] = {
    "operation": ("--operation get", {"operations": "GET"}, lambda row, _: row.operation == READ),
    "size class": (
        "--size-class large", {"size_classes": ["large"]}, lambda row, _: row.size_class == 1,
    ),
    "endpoint": (
        "--endpoint two.example", {"endpoints": [URLS[1]]}, lambda row, _: row.url == 1,
    ),
    "address": (
        "--address 10.0.0.1", {"addresses": ["10.0.0.1:80"]},
        lambda row, worker: row.address == 1 + worker,
    ),
    "worker": ("--worker beta", {"workers": "beta"}, lambda _, worker: worker == 1),
    "several": (
        "--worker beta --worker alpha --operation CREATE --endpoint two.example:9000",
        {"workers": ["beta", "alpha"], "operations": ["CREATE"], "endpoints": ["two.example"]},
        lambda row, _: row.operation == CREATE and row.url == 1,
    ),
}  # fmt: skip
#: Sections that every part has figures of its own in.
FIGURES = (
    "total", "operations", "errors", "seconds", "stages", "steadiness", "completions_per_s",
)  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_the_figures_of_a_part_are_those_of_a_run_of_nothing_else(
    name: str, whole: Path, tmp_path: Path, shell: Shell
) -> None:
    given, chosen, kept = PARTS[name]
    options = given.split()
    alone = stat_file(tmp_path / "alone.stat.gz", records(kept))
    part, own = (
        json.loads(shell("report-scenario", *words, "--json").out)
        for words in ([whole, *options], [alone])
    )
    asked = {"operation": {"READ"}, "several": {"CREATE"}}.get(name, {*own["operations"]})
    assert {*part["operations"]} == asked  # no empty figures of the others
    own["operations"] = {each: own["operations"][each] for each in asked}
    for key in FIGURES:
        assert part[key] == own[key], key
    assert part["run"] | {"unaccounted": None} == own["run"] | {"unaccounted": None}
    assert part["workers"]["requests_by_worker_id"] == own["workers"]["requests_by_worker_id"]
    stats = ssbench.read(whole, **chosen)
    assert stats.total().last_byte == ssbench.read(alone).total().last_byte
    single = [shell("report-scenario", *words, "--operations", "-").out
              for words in ([whole, *options], [alone])]  # fmt: skip
    assert single[0] == single[1]


def test_an_identity_without_a_result_is_a_row(shell: Shell) -> None:
    """Such as one whose requests all hang until the run ends."""
    header, *others = records(lambda *_: True)  # of one group of users
    assert isinstance(header, RunHeader)
    header = structs.replace(header, store={"urls": URLS, "identities": ["ann", "bob", "cee"]})
    path = stat_file(shell.folder / "one.gz", [header, *others])
    rows = json.loads(shell("report-scenario", path, "--json").out)["by_identity"]
    assert [(row["identity"], row["count"] > 0) for row in rows] == [
        ("ann", True), ("bob", False), ("cee", False),
    ]  # fmt: skip
    assert "IDENTITIES" in shell("report-scenario", path).out
    only = json.loads(shell("report-scenario", path, "--identity", "ann", "--json").out)
    assert [row["identity"] for row in only["by_identity"]] == ["ann"]


def test_a_time_is_measured_over_its_own_window(whole: Path, shell: Shell) -> None:
    stats = ssbench.read(whole, from_s=4.0, to_s=10.0)
    started = [row for row in rows() if 4 <= (row.start_ns - START_NS) / runs.SECOND < 10]
    assert stats.total().operations == len(started) == 120
    assert stats.total().throughput.seconds == 6.0
    assert stats.left_out == 400 - 120
    in_window = sum(
        max(0.0, min(high, 10e9) - max(low, 4e9)) / (high - low)
        for row in rows() if not row.error
        for low in [row.start_ns - START_NS] for high in [low + row.last_byte_ns]
    )  # fmt: skip
    assert stats.total().throughput.operations == pytest.approx(in_window)
    seconds = list(csv.DictReader(io.StringIO(
        shell("report-scenario", whole, "--from", "4s", "--to", "10", "--time-series", "-").out
    )))  # fmt: skip
    assert [int(row["second"]) for row in seconds] == list(range(5, 12))
    counted = shell("report-scenario", whole, "--from", "4", "--to", "10", "--operations", "-")
    assert sum(row["counted"] == "true" for row in csv.DictReader(io.StringIO(counted.out))) == 120
    points = [list(each.series.points("cpu_percent")) for each in stats.hosts.processes()]
    assert {at_s for each in points for at_s, _value in each} == {n + 0.5 for n in range(4, 11)}


def in_stages(names: Sequence[str], run_id: str = "5e1f") -> list[Record]:
    """The run in stages of 5 s, with these names."""
    scenario = {
        **runs.SCENARIO, "operation_count": None, "sizes": SIZES,
        "stages": [{"seconds": 5, "users": 4, "name": name} for name in names],
    }  # fmt: skip
    marks = [
        MarkRecord(START_NS + 5 * at * runs.SECOND, "stage", at, 4) for at in range(len(names))
    ]
    kept = [r for r in records(lambda *_: True, run_id) if not isinstance(r, RunHeader)]
    at = next(n for n, record in enumerate(kept) if isinstance(record, MarkRecord))
    header = runs.header(scenario=scenario, run_id=run_id, store={"urls": URLS})
    return [header, *kept[:at], *marks, *kept[at + 1 :]]


STAGES = ["idle", "peak", "", "idle"]


def test_a_stage_is_the_part_of_its_time(shell: Shell) -> None:
    path = stat_file(shell.folder / "run.gz", in_stages(STAGES))
    times = ssbench.read(path, from_s=5.0, to_s=10.0)
    for asked in ("peak", "2"):
        stats = ssbench.read(path, stage=asked)
        assert stats.total() == times.total()
        assert stats.chosen.text == f"stage {asked}, 5 s to 10 s of the load"
    assert ssbench.read(path, stage="stage 3").chosen.from_s == 10.0
    assert ssbench.read(path, stage="idle").chosen.to_s == 5.0  # the first of that name
    cut = [r for r in in_stages(STAGES) if getattr(r, "name", "") != "end"][:-1]
    cut_off = ssbench.read(stat_file(shell.folder / "cut.gz", cut), stage="peak")
    assert (cut_off.chosen.from_s, cut_off.chosen.to_s) == (5.0, 10.0)
    single = [shell("report-scenario", path, *part, "--operations", "-").out
              for part in (("--stage", "peak"), ("--from", "5", "--to", "10"))]  # fmt: skip
    assert single[0] == single[1]
    made = json.loads(shell("report-scenario", path, "--stage", "peak", "--json").out)
    assert (made["part"]["stage"], made["part"]["to_s"]) == ("peak", 10.0)
    wrong = shell("report-scenario", path, "--stage", "4x")
    assert wrong.status == 2
    assert wrong.last.endswith('--stage "4x": its stages are idle, peak, stage 3, idle')
    assert shell("report-scenario", path, "--stage", "1", "--to", "3").status == 2


def test_a_mark_is_a_time_of_the_load(shell: Shell) -> None:
    began = runs.STARTED_AT + START_NS / runs.SECOND
    marked = [EventRecord(began + at, text) for at, text in ((4.0, "node 3 down"), (10.0, "up"))]
    path = stat_file(shell.folder / "run.gz", [*records(lambda *_: True), *marked])
    times = ssbench.read(path, from_s=4.0, to_s=10.0)
    stats = ssbench.read(path, from_s="node 3 down", to_s="up")
    assert stats.total() == times.total()
    assert stats.chosen.text == '4 s ("node 3 down") to 10 s ("up") of the load'
    said = [
        shell(*command, "--from", "node 3 down", "--to", to)
        for command in (["report-scenario", path], ["compare", path, path])
        for to in ("up", "gone", "3")
    ]
    assert [each.status for each in said[:3]] == [0, 2, 2]
    assert "PART: 4 s (" in said[0].out
    assert said[1].last.endswith('--to "gone": no such mark; the run\'s marks: "node 3 down", "up"')
    assert said[2].last.endswith("--to 3 s is not after --from 4 s")
    assert shell("report-scenario", path, "--from", "6x").status == 2


def test_parts_are_the_stages_of_the_whole_report(tmp_path: Path) -> None:
    """Also of what began later than the first stage, and after the load's end."""
    made = in_stages(STAGES[:3])
    for at, record in enumerate(made):
        if isinstance(record, MarkRecord) and record.name == "end":
            made[at] = structs.replace(record, at_ns=START_NS + 12 * runs.SECOND)
        elif isinstance(record, MarkRecord) and record.at_ns == START_NS:
            made[at] = structs.replace(record, at_ns=START_NS - runs.SECOND // 10)
    path = stat_file(tmp_path / "run.gz", made)
    whole = ssbench.read(path)
    for at in range(3):
        part, stage = ssbench.read(path, stage=str(at + 1)).total(), whole.total(stage=at)
        assert part.count == stage.count > 0
        assert part.rate_per_s == stage.rate_per_s


def test_stages_are_compared(shell: Shell) -> None:
    paths = [stat_file(shell.folder / f"{n}.gz", in_stages(STAGES[:3], n)) for n in ("a1", "b2")]
    assert "STAGES (latencies: service time)" in shell("compare", *paths).out
    found = json.loads(shell("compare", *paths, "--json").out)["by_stage"]
    assert [row["stage"] for row in found] == ["idle", "peak", "stage 3"]
    again = stat_file(shell.folder / "again.gz", in_stages(["up", "up"], "c3"))
    alike = json.loads(shell("compare", again, paths[0], "--json").out)["by_stage"]
    assert [row["stage"] for row in alike][:2] == ["up (1)", "up (2)"]
    stage = ssbench.read(paths[1], stage="peak").total()
    assert found[1]["runs"][1]["count"] == stage.count
    assert found[1]["runs"][1]["requests_per_s"] == pytest.approx(stage.rate_per_s)
    assert "figures cover the whole part" in shell("compare", *paths, "--stage", "peak").out
    part = json.loads(shell("compare", *paths, "--stage", "peak", "--json").out)
    assert part["total"]["operations"] == [stage.operations] * 2


def test_stages_of_open_loops_are_compared_by_their_response_times_too(shell: Shell) -> None:
    stages = [{"seconds": 6, "rate": 40}] * 2
    paths = [
        stat_file(
            shell.folder / f"{seed}.gz",
            runs.lasting(12, 40, seed=seed, due=True, begins=(0, 6), stages=stages),
        )
        for seed in (1, 2)
    ]
    assert "Run 2 response p99 (ms)" in shell("compare", *paths).out
    found = json.loads(shell("compare", *paths, "--json").out)["by_stage"]
    whole = ssbench.read(paths[0]).total(stage=1).response.histogram
    (expected,) = whole.quantiles((99,))
    assert found[1]["runs"][0]["response_p99_s"] == pytest.approx((expected or 0) / runs.SECOND)


def test_another_warm_up_replaces_that_of_the_run(tmp_path: Path) -> None:
    path = stat_file(tmp_path / "run.gz", runs.lasting(20, 20, warmup=8))
    assert ssbench.read(path).total().operations == 240
    assert ssbench.read(path, warmup=2.0).total().operations == 360
    assert ssbench.read(path, warmup=0.0).total().operations == 400
    assert ssbench.read(path, from_s=5.0).total().operations == 240  # the warm-up stays


def test_a_part_of_a_run_of_so_many_operations_has_a_window(tmp_path: Path) -> None:
    changes = {"operation_count": 400}
    made = runs.lasting(20, 20, **changes)
    path = stat_file(tmp_path / "run.gz", [*made[:-1], runs.footer(sent=400)])
    assert ssbench.read(path).rate_basis.value == "completed"
    part = ssbench.read(path, to_s=5.0, operations=["get"])
    assert part.chosen.text == "0 s to 5 s of the load, operation READ"
    part = ssbench.read(path, to_s=5.0)
    assert (part.rate_basis.value, part.total().throughput.seconds) == ("share", 5.0)


def test_every_format_says_that_it_is_a_part(whole: Path, shell: Shell) -> None:
    part = ("--from", "4", "--operation", "get")
    said = "4 s to the end of the load, operation READ"
    page = shell.folder / "page.html"
    found = shell("report-scenario", whole, *part, "--html", page, "--html-assets", shell.folder)
    assert f"PART: {said}." in found.out
    assert f"Part        {said}\n" in found.out
    assert said in page.read_text()
    assert said in shell("report-scenario", whole, *part, "--markdown").out
    (row,) = csv.DictReader(io.StringIO(shell("report-scenario", whole, *part, "--csv").out))
    assert row["part"] == said
    made = json.loads(shell("report-scenario", whole, *part, "--json").out)
    assert made["part"] | {"line": said, "from_s": 4.0, "operations": ["READ"]} == made["part"]
    assert "part" not in json.loads(shell("report-scenario", whole, "--json").out)


def test_thresholds_of_the_scenario_that_say_nothing_of_the_part_are_left_out(shell: Shell) -> None:
    judged = ["lost < 1", "p99(CREATE) < 1us", "p99(READ) < 1s"]
    path = stat_file(shell.folder / "run.gz", runs.lasting(12, 20, thresholds=judged))
    made = json.loads(shell("report-scenario", path, "--json").out)
    assert [row["threshold"] for row in made["thresholds"]] == judged
    found = shell("report-scenario", path, "--operation", "READ", "--json")
    assert found.status == 0
    assert [row["threshold"] for row in json.loads(found.out)["thresholds"]] == judged[2:]


def test_parts_of_runs_are_compared(whole: Path, shell: Shell) -> None:
    other = stat_file(shell.folder / "other.gz", records(lambda *_: True, "77"))
    part = ("--from", "4", "--to", "18", "--size-class", "large", "--worker", "alpha")
    said = "4 s to 18 s of the load, size class large, worker alpha"
    found = shell("compare", whole, other, *part)
    assert (found.status, f"PART: {said}." in found.out) == (0, True)
    made = json.loads(shell("compare", whole, other, *part, "--json").out)
    assert made["part"]["line"] == said
    assert [run["whole_seconds"] for run in made["runs"]] == [13, 13]
    chosen = ssbench.read(whole, from_s=4, to_s=18, size_classes="large", workers="alpha")
    assert made["total"]["operations"][0] == chosen.total().operations


_HAS = "the run has no results of such"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--operation POST", f'--operation "POST": {_HAS} an operation; it has: CREATE, READ'),
        ("--size-class big", f'--size-class "big": {_HAS} a size class; it has: tiny, large'),
        ("--worker gamma", f'--worker "gamma": {_HAS} a worker; it has: alpha, beta'),
        ("--endpoint x", f'--endpoint "x": {_HAS} an endpoint; it has: {URLS[0]}, {URLS[1]}'),
        ("--stage=", '--stage "": its stages are stage 1'),
        ("--from 60s", "part: 60 s to the end of the load; its load lasted 20.0 s"),
        ("--from 5 --to 5", "--to 5 s is not after --from 5 s"),
        (
            "--to 5 --threshold lost==0",
            "--threshold 'lost == 0': lost is known of whole runs only: leave it or the part out "
            "(0 s to 5 s of the load)",
        ),
    ],
)
def test_a_part_that_the_run_does_not_have(
    options: str, said: str, whole: Path, shell: Shell
) -> None:
    found = shell("report-scenario", whole, *options.split())
    assert (found.status, found.out) == (2, "")
    assert found.last.endswith(said)
    if "--threshold" not in options and "--operation" not in options:
        other = stat_file(shell.folder / "other.gz", records(lambda *_: True, "77"))
        assert shell("compare", whole, other, *options.split()).status == 2


def test_a_file_of_0_3_9_has_no_times() -> None:
    old = Path(__file__).parents[1] / "golden" / "ssbench-0.3.9" / "noop.stat.gz"
    with pytest.raises(UsageError, match="does not say when its load began"):
        ssbench.read(old, to_s=5)
    assert ssbench.read(old, operations="READ").total().operations
