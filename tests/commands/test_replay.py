"""Replays, as far as they are decided before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssbench.commands.replay.access_log import RequestLog, read_logs
from ssbench.commands.replay.formats import UNKNOWN
from ssbench.commands.replay.plan import Replay
from ssbench.core.errors import UsageError
from ssbench.runner.config import RunConfig, ScenarioText
from tests.commands.test_log_formats import combined, s3, swift, versitygw


def made(tmp_path: Path, *lines: str, speed: float = 1.0) -> Replay:
    path = tmp_path / "log"
    path.write_text("\n".join(lines))
    log = RequestLog()
    read_logs([str(path)], log)
    overrides = {"user_count": 64, "seed": 0}
    run = RunConfig(scenario=ScenarioText(b"", "replay"), store=None, overrides=overrides)
    return Replay(run, speed, log)


def later(line: str, year: int) -> str:
    return line.replace("/2000:", f"/{year}:")


def test_the_scenario_of_a_replay_says_what_is_sent(tmp_path: Path) -> None:
    lines = [swift("GET", f"/v1/a/c{n}/o", 206, sent=100 * n) for n in (1, 2, 3)]
    found = made(tmp_path, *lines, swift("PUT", "/v1/a/c1/new", 201, received=7))
    scenario = found.scenario
    assert (scenario.operation_count, scenario.container_count, scenario.rate) == (4, 3, 4)
    assert scenario.parameters == {"range_bytes": 200}
    (size,) = scenario.sizes
    assert (size.size_min, size.size_max, size.initial_files) == (7, 300, 4)
    assert (found.requests.prepared, found.prepared_bytes) == (3, 600)


def test_parts_of_unknown_length_have_the_average_or_the_default_length(tmp_path: Path) -> None:
    lines = [versitygw("PutObject", "k", size=100_000), versitygw("GetObject", "k", "206 -")]
    assert made(tmp_path, *lines).scenario.parameters == {"range_bytes": 65536}
    known = s3("REST.GET.OBJECT", "k", 206, sent=300, size=1000)
    replay = made(tmp_path, *lines, known)
    assert replay.scenario.parameters == {"range_bytes": 300}
    assert sorted(replay.requests.moved) == [UNKNOWN, 300, 100_000]


def test_speed_divides_times(tmp_path: Path) -> None:
    lines = [swift("GET", "/v1/a/c/o"), swift("GET", "/v1/a/c/o").replace("032.25", "034.25")]
    assert made(tmp_path, *lines).seconds == 2
    assert made(tmp_path, *lines, speed=4.0).seconds == 0.5


@pytest.mark.parametrize("speed", [0.001, 1_000_000.0])
def test_the_longest_log_has_due_times_that_rise(tmp_path: Path, speed: float) -> None:
    lines = [later(combined("GET", "/x"), year) for year in (1970, 2000, 2100)]
    due_ns = [*made(tmp_path, *lines, speed=speed).requests.at_ns]
    assert due_ns == sorted(due_ns)
    assert due_ns[0] == 0


def test_a_burst_sends_a_bounded_number_of_jobs_ahead(tmp_path: Path) -> None:
    found = made(tmp_path, *[swift("GET", "/v1/a/c/o")] * 50_000)
    assert found.workload.dues.ahead <= 20_001


def test_objects_too_large_for_the_store_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = [
        swift("GET", "/v1/a/c/huge", sent=5000),
        swift("GET", "/v1/a/c/o", sent=100),
        swift("PUT", "/v1/a/c/o", 201, received=9000),
        swift("GET", "/v1/a/c/o", sent=9000),
        swift("HEAD", "/v1/a/c/huge"),
    ]
    found = made(tmp_path, *lines)
    found.leave_out_larger(None)
    found.leave_out_larger(9000)
    assert (found.too_large, len(found.requests), found.requests.prepared) == (0, 5, 2)
    found.leave_out_larger(1000)
    assert (found.too_large, len(found.requests), found.requests.prepared) == (4, 1, 1)
    assert found.prepared_bytes == 100
    assert found.scenario.sizes[0].size_max == 100
    assert found.scenario.operation_count == 1
    with pytest.raises(UsageError, match="more than the 99 bytes that this store takes"):
        found.leave_out_larger(99)


def test_a_log_of_bulk_deletes_alone_cannot_be_replayed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no request that can be sent again: bulk deletes"):
        made(tmp_path, s3("REST.POST.MULTI_OBJECT_DELETE"))
