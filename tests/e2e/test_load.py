"""Rates, stages and think time, in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssbench import statfile
from ssbench.core.model import Phase
from ssbench.core.operations import row_of
from ssbench.core.records import ClockRecord, MarkRecord, PhaseRecord, ResultBatch
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Commands, check_all_done, login, rows_of, until
from tests.fakes.paced_swift import PacedSwift, reads_of

SECOND = 1_000_000_000


def times(
    path: Path, *, by_master: bool = False
) -> tuple[list[MarkRecord], list[tuple[int, int, int]]]:
    """The marks, and (due, start, end) of each operation of the run, by start.

    :param by_master: by the master's clock, as figures are; else starts and ends are by the
        worker's, which was some milliseconds wrong if the host was busy when they were compared.
    """
    marks, rows = [], []
    shifts_ns: dict[int, int] = {}
    with statfile.read(str(path)) as reader:
        for record in reader:
            if isinstance(record, MarkRecord):
                marks.append(record)
            elif isinstance(record, ClockRecord) and record.phase is Phase.RUN and by_master:
                shifts_ns[record.worker] = record.shift_ns
            elif isinstance(record, ResultBatch) and record.phase is Phase.RUN:
                shift = shifts_ns.get(record.worker, 0)
                columns = [record.column(name) for name in ("due_ns", "start_ns", "last_byte_ns")]
                rows += [
                    (due, start + shift, start + shift + last)
                    for due, start, last in zip(*columns, strict=True)
                ]
    return marks, sorted(rows, key=lambda row: row[1])


def most_at_once(rows: list[tuple[int, int, int]]) -> int:
    events = sorted([(start, 1) for _, start, _ in rows] + [(end, -1) for _, _, end in rows])
    most = now = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


@pytest.mark.parametrize("arrivals", ["uniform", "poisson"])
def test_operations_fall_due_at_the_rate_and_never_start_before(
    commands: Commands, arrivals: str
) -> None:
    path = commands.scenario(operation_count=None, run_seconds=3, user_count=16)
    ended = commands.run("-f", path, "--noop", "--rate", 200, "--arrivals", arrivals).fine()
    marks, rows = times(ended.results)
    begin_ns = marks[0].at_ns
    assert [mark.name for mark in marks] == ["stage", "end"]
    assert marks[0].rate == 200
    dues = [due - begin_ns for due, _, _ in rows]
    assert all(start >= due for due, start, _ in rows)
    assert min(dues) >= 0
    assert max(dues) < 3 * SECOND
    late = ended.stats.run.late
    if arrivals == "uniform":
        assert len(rows) + late == 600
        assert len({*dues}) == len(dues)
        # Those that never started may be anywhere, if one of the workers was late.
        assert {*dues} <= {n * SECOND // 200 for n in range(600)}
    else:
        # Six standard deviations of a Poisson count.
        assert len(rows) + late == pytest.approx(600, abs=6 * 600**0.5)


def test_stages_have_their_own_users_and_rates(commands: Commands) -> None:
    stages = [{"seconds": 1, "rate": 50}, {"seconds": 1, "rate": 300}, {"seconds": 0.5, "rate": 20}]
    path = commands.scenario(operation_count=None, stages=stages)
    ended = commands.run("-f", path, "--noop").fine()
    marks, rows = times(ended.results)
    begins = [mark.at_ns for mark in marks if mark.name == "stage"]
    assert [mark.rate for mark in marks] == [50, 300, 20, 20]
    zero = begins[0]
    counts = [
        sum(low <= due - zero < high for due, _, _ in rows)
        for low, high in ((0, SECOND), (SECOND, 2 * SECOND), (2 * SECOND, 3 * SECOND))
    ]
    assert all(count <= due for count, due in zip(counts, (50, 300, 10), strict=True))
    # A host that is held up at the end of the load starts fewer.
    assert sum(counts) + ended.stats.run.late == 50 + 300 + 10


def test_users_come_and_go_with_the_stages(commands: Commands) -> None:
    """A stage ends by a count, and each operation takes 50 ms: a slow host changes nothing."""
    stages = [{"operation_count": 10 * users, "users": users} for users in (2, 40, 4)]
    keys = {"operation_count": None, "user_count": None, "stages": stages}
    with PacedSwift(1000, 0.05) as store:
        path = commands.scenario(**{**reads_of(1000), **keys})
        ended = commands.run("-f", path, "-S", store.url, "-T", "token").fine()
    marks, rows = times(ended.results, by_master=True)
    assert [mark.users for mark in marks if mark.name == "stage"] == [2, 40, 4]
    assert ended.counted() == (460, 0, 0)
    few, many, fewer = (
        most_at_once(rows[low:high]) for low, high in ((0, 20), (20, 420), (420, 460))
    )
    assert few <= 2
    assert 4 < many <= 40, "more than users of the other stages"
    assert fewer <= 4


def test_each_group_performs_its_own_operations_on_swift(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    groups = {
        "puts": {"users": 3, "operations": {"create": 1}},
        "gets": {"users": 2, "operations": {"read": 3, "head": 1}},
        "deletes": {"users": 1, "operations": {"delete": 1}},
    }
    keys = {"groups": groups, "operation_count": 100, "container_base": "groups"}
    path = commands.scenario(user_count=None, crud_profile=None, **keys)
    ended = commands.run("-f", path, *login(embedded_swift), workers=1)
    check_all_done(ended, 100, embedded_swift, "groups")
    rows = list(rows_of(ended.results))
    done = {(row["group"], row_of(row["operation"]).name) for row in rows}
    assert done == {(0, "CREATE"), (1, "READ"), (1, "HEAD"), (2, "DELETE")}
    for group, users in enumerate((3, 2, 1)):
        own = [r for r in rows if r["group"] == group]
        spans = [(0, r["start_ns"], r["start_ns"] + r["last_byte_ns"]) for r in own]
        assert 0 < most_at_once(spans) <= users


def test_a_million_users_start_as_jobs_need_them(commands: Commands) -> None:
    groups = {"gets": {"users": 1_000_000, "operations": {"read": 1}}}
    path = commands.scenario(
        user_count=None, crud_profile=None, groups=groups, operation_count=5000
    )
    ended = commands.run("-f", path, "--noop", "--workers", 1).fine()
    assert ended.counted() == (5000, 0, 0)


def by_the_wall_clock(path: Path) -> tuple[float, float, list[float], list[float]]:
    """Begin and end of the load of an open loop, and when its operations were due and ended."""
    marks, rows = times(path, by_master=True)
    with statfile.read(str(path)) as reader:
        phases = [each for each in reader if isinstance(each, PhaseRecord)]
    (start_s,) = [each.started_at for each in phases if each.phase is Phase.RUN]
    ends = [start_s + mark.at_ns / SECOND for mark in (marks[0], marks[-1])]
    due, ended = ([start_s + row[i] / SECOND for row in rows] for i in (0, 2))
    return ends[0], ends[1], due, ended


def test_the_runs_of_two_masters_at_the_same_time_are_reported_as_one(commands: Commands) -> None:
    path = commands.scenario(operation_count=None, run_seconds=90, crud_profile=[0, 1, 0, 0])
    words = ["-f", path, "--noop", "-R", "--container-base"]
    masters = [
        commands.start_run(*words, base, "--rate", rate, "-u", users, workers=1)
        for base, rate, users in (("one", 50, 3), ("two", 100, 6))
    ]
    for each in masters:
        each.wait_for("Uploading initial objects")  # there is a stat file by now
    # Once both are in the run phase they can be ended, one after the other.
    until("operations of both", lambda: all(each.on_disk("READ") > 30 for each in masters))
    for each in masters:
        each.interrupt()
    files = [each.wait().fine(5).results for each in masters]
    merged = json.loads(commands.call("report-scenario", *files, "--json").fine(0).out)
    begins, ends, dues, ended = zip(*map(by_the_wall_clock, files), strict=True)
    low, high = max(begins), min(ends)
    total, run = merged["total"], merged["run"]
    assert [part["users"] for part in merged["merged"]] == [3, 6]
    assert (run["users"], run["scenario"]["rate"]) == (9, 150)
    by_worker = merged["workers"]["requests_by_worker_id"]
    assert sorted(by_worker.values()) == sorted(map(len, dues))
    assert merged["phases"]["POPULATE"]["count"] == 20
    # Each end of it is moved inwards to a whole millisecond.
    assert -1e-5 < high - low - total["rate_window_s"] < 2.001e-3

    def within(instants: tuple[list[float], ...]) -> tuple[int, int]:
        """How many at least and at most: on a busy host, many may be within a millisecond."""
        edge_s = 2e-3
        fewest, most = (
            sum(low + by <= each < high - by for one in instants for each in one)
            for by in (edge_s, -edge_s)
        )
        return fewest, most

    # Only what was due while both ran counts.
    fewest, most = within(dues)
    assert fewest <= total["count"] <= most
    # The rate is that of what completed meanwhile, late or not.
    fewest, most = within(ended)
    assert fewest - 0.01 <= total["requests_per_s"] * total["rate_window_s"] <= most + 0.01


def test_stages_apart_write_read_and_delete_all_objects_on_swift(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    """Each begins when all before have ended; its waits count for none."""
    groups = {
        "gets": {"users": 3, "operations": {"read": 1}},
        "heads": {"users": 1, "operations": {"head": 1}},
    }
    stages = [
        {"name": "write", "operations": {"create": 1}, "operation_count": 40},
        {"name": "ramp", "operations": {"read": 1}, "seconds": 1, "users": [4, 1]},
        {"name": "mixed", "seconds": 1, "groups": groups},
        {"name": "read", "operations": {"read": 1}, "epochs": 2},
        {"name": "delete", "operations": {"delete": 1}, "epochs": 1},
    ]
    path = commands.scenario(
        operation_count=None, crud_profile=None, initial_files=None, stages=stages,
        sizes=[{"name": "a", "size": 1000}],
    )  # fmt: skip
    ended = commands.run("-f", path, *login(embedded_swift)).fine()
    marks, _rows = times(ended.results)
    begins = [mark.at_ns for mark in marks if mark.name == "stage"]
    pauses = [mark.at_ns for mark in marks if mark.name == "pause"]
    assert [len(begins), len(pauses)] == [5, 4]
    assert all(pause <= begin for pause, begin in zip(pauses, begins[1:], strict=True))
    stats = ended.stats
    assert [stats.total(stage=at).count for at in (0, 3, 4)] == [40, 80, 40]
    assert (stats.total().errors, stats.run.left_behind, stats.run.short_of_users) == (0, 0, False)
    lengths = [stats.stage_seconds(at) for at in (1, 2)]
    assert lengths == [1.0, 1.0]
    named = {source.name: source for source in stats.groups()}
    assert [*named] == ["write", "ramp", "mixed/gets", "mixed/heads", "read", "delete"]
    assert named["ramp"].where == "4 to 1 user"
    # An operation is of the stage that it started in. Waits are divided in their middle: half of a
    # wait is longer than the error of a clock, by which an operation may seem to start in it.
    drawn = [source.tally.count for source in named.values()]
    drawn[2:4] = [sum(drawn[2:4])]
    assert [stats.total(stage=at).count for at in range(5)] == drawn
    assert sum(drawn) == stats.total().count
