"""A stat file that can't grow any more, and a report that nobody takes."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    Account,
    Commands,
    Ended,
    Started,
    finished,
    login,
    requests,
    stats_of,
    until,
)
from tests.e2e.faults.matrix import Row
from tests.e2e.namespaces import Namespace
from tests.e2e.test_output import noop_run, shell

SMALL = 1 << 16  #: bytes: room for three of the blocks of ``fill``, which are written every second
ROOM_S = "3600"  #: seconds of a run that is to end earlier


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Namespace]:
    """A host on which the directory "small" is a disk with little room."""
    place = tmp_path / "small"
    place.mkdir()
    with Namespace("--mount") as host:
        host.run("mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(place))
        yield host


def fill(commands: Commands, stat_file: Path, **options: Any) -> Started:
    """A run that goes on until its stat file is full, which it must not survive for long."""
    keys = {"crud_profile": [1, 1, 0, 1], "user_count": 64, "think_time": 0.04}
    words = ["-f", commands.scenario(**keys), "--noop", "-r", ROOM_S]
    return commands.start_run(*words, workers=1, stat_file=stat_file, **options)


def limit(started: Started, size: int) -> None:
    """Of the files that the master writes."""
    resource.prlimit(started.pid, resource.RLIMIT_FSIZE, (size, size))


def full(started: Started) -> Ended:
    return started.wait().fine(1)


@pytest.mark.fault("disk full during the run")
def test_a_full_disk_ends_the_run_cleanly(
    commands: Commands, small_disk: Namespace, row: Row
) -> None:
    stat_file = commands.place / "small" / "run.stat.gz"
    ended = full(fill(commands, stat_file, preexec_fn=small_disk.enter()))
    assert f"{stat_file}: can't be written: No space left" in ended.err
    assert "blocks) are kept and can be read" in ended.err
    kept = small_disk.path(stat_file)
    stats = stats_of(kept, damaged=True)
    assert sum(finished(stats).values()) > 100
    assert ended.counted()[0] == sum(finished(stats).values())
    report = commands.call("report-scenario", "-s", kept).fine(1)
    assert report.counted() == ended.counted()
    row.saw("status 1, said what was kept; what was kept can be reported on")


@pytest.mark.fault("limit on the size of files (RLIMIT_FSIZE)")
def test_a_file_size_limit_ends_the_run_cleanly(commands: Commands, row: Row) -> None:
    started = fill(commands, commands.place / "run.stat.gz")
    limit(started, SMALL)
    ended = full(started)
    assert "too large" in ended.err
    assert sum(finished(stats_of(ended.results, damaged=True)).values()) > 100
    row.saw("as a full disk")


@pytest.mark.fault("disk full, objects were created")
def test_created_objects_are_deleted_after_a_full_disk(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    path = commands.scenario(container_base="fulldisk", crud_profile=[2, 1, 0, 0], think_time=0.02)
    started = commands.start_run("-f", path, "-r", ROOM_S, *login(embedded_swift))
    limit(started, 6 * 1024)
    ended = full(started)
    assert "could not be deleted" not in ended.err
    stats = stats_of(ended.results, damaged=True)
    assert stats.run.header is not None
    assert Account(embedded_swift).created("fulldisk", stats.run.run_id) == []
    row.saw("they were deleted all the same")


@pytest.mark.fault("disk full when the run is to begin (/dev/full)")
def test_at_the_header(commands: Commands, embedded_swift: EmbeddedSwift, row: Row) -> None:
    path = commands.scenario(container_base="atheader")
    stat_file = Path("/dev/full")
    line = commands.run("-f", path, *login(embedded_swift), stat_file=stat_file).one_line()
    assert "/dev/full: can't be written: No space left on device; nothing was kept" in line
    asked = {request.method for request in requests(embedded_swift, "atheader")}
    assert asked <= {"HEAD"}, "the file comes before the first request that changes the store"
    assert Account(embedded_swift).containers("atheader") == []
    row.saw("status 1, one line, nothing was sent that changes the store")


@pytest.mark.fault("disk full when the footer is written")
def test_at_the_footer(commands: Commands, embedded_swift: EmbeddedSwift, row: Row) -> None:
    keys = {"container_count": 2000, "container_concurrency": 1}
    path = commands.scenario(container_base="atfooter", **keys)
    words = ["-f", path, *login(embedded_swift)]
    started = commands.start_run(*words, workers=1)
    until("containers", lambda: len(requests(embedded_swift, "atfooter")) > 5)
    assert started.stat_file is not None
    size = started.stat_file.stat().st_size
    assert size > 0
    limit(started, size)
    row.strike()
    started.signal(signal.SIGTERM)  # no phase has begun, so the footer is what comes next
    ended = started.wait().fine(1)
    row.recovered()
    said = re.search(r"the first (\d+) bytes \((\d+) blocks\) are kept and can be read", ended.err)
    assert said
    # Another block may have come before the limit.
    assert int(said[1]) == ended.results.stat().st_size >= size
    assert int(said[2]) >= 2
    assert "cut off" in ended.out
    assert stats_of(ended.results, damaged=True).run.header is not None
    row.saw("status 1, said what was kept, report of what there is")


@pytest.mark.fault("no place for the stat file")
def test_a_stat_file_that_cannot_be_created_is_reported_before_the_run(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    path = commands.scenario(container_base="nowhere")
    before = embedded_swift.access_log().stat().st_size
    stat_file = commands.place / "no" / "such" / "place.stat.gz"
    line = commands.run("-f", path, *login(embedded_swift), stat_file=stat_file).one_line(2)
    assert f"-s {stat_file}: can't be written: No such file or directory; make the folder" in line
    assert embedded_swift.access_log().stat().st_size == before
    row.saw("status 2, one line, no server was asked")


@pytest.mark.fault("report into a pipe that is closed")
def test_a_closed_pipe_of_the_report(commands: Commands, row: Row) -> None:
    done = shell(commands, '"$@" | true; echo "${PIPESTATUS[0]}"', *noop_run(commands))
    assert done.stdout == "0\n"
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
    row.accounted(stats_of(commands.place / "x.stat.gz"))
    row.saw("quiet end, status 0, results kept")


@pytest.mark.fault("report onto a full disk")
def test_a_report_on_a_full_disk(commands: Commands, row: Row) -> None:
    done = shell(commands, '"$@" >/dev/full; echo $?', *noop_run(commands))
    assert done.stdout == "1\n"
    last = done.stderr.splitlines()[-1]
    assert last == "ssbench-master: cannot write to standard output: No space left on device"
    assert "Scenario run results saved to" in done.stderr
    row.accounted(stats_of(commands.place / "x.stat.gz"))
    row.saw("status 1, one line, results kept")


def test_an_existing_file_is_not_overwritten(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    path = commands.scenario(container_base="isthere")
    first = commands.run("-f", path, "--noop", workers=1).fine()
    before = first.results.read_bytes()
    asked = embedded_swift.access_log().stat().st_size
    options = ["run-scenario", "-f", path, *login(embedded_swift)]
    line = commands.call(*options, "-s", first.results).one_line(2)
    assert line == f"ssbench-master: {first.results}: is there already; --force overwrites it"
    assert first.results.read_bytes() == before
    link = commands.place / "link"
    link.symlink_to(first.results)
    line = commands.call(*options, "--force", "-s", link).one_line(2)
    assert "is a link, which isn't followed" in line
    assert first.results.read_bytes() == before
    assert embedded_swift.access_log().stat().st_size == asked
    commands.run("-f", path, "--noop", "--force", stat_file=first.results, workers=1).fine()
    assert first.results.read_bytes() != before
    commands.run("-f", path, "--noop", stat_file=Path("/dev/null"), workers=1).fine()
