"""A stat file that can't grow any more."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, Ended, finished, login, stats_of
from tests.e2e.namespaces import Namespace

SMALL = 1 << 20  #: seconds of a run without a store
ROOM_S = "60"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Namespace]:
    """A host on which the directory "small" is a disk with room for 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    with Namespace("--mount") as host:
        host.run("mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(place))
        yield host


def filled(commands: Commands, stat_file: Path, **options: object) -> Ended:
    """A run that goes on until its stat file is full, which it must not survive for long."""
    path = commands.scenario(crud_profile=[1, 1, 0, 1], user_count=64)
    ended = commands.run("-f", path, "--noop", "-r", ROOM_S, stat_file=stat_file, **options)
    assert ended.took_s < 45
    return ended.fine(1)


def test_a_full_disk_ends_the_run_in_good_order(commands: Commands, small_disk: Namespace) -> None:
    stat_file = commands.place / "small" / "run.stat.gz"
    ended = filled(commands, stat_file, prefix=small_disk.prefix)
    assert "No space left" in ended.err
    assert str(stat_file) in ended.err
    stats = stats_of(small_disk.path(stat_file), damaged=True)
    assert sum(finished(stats).values()) > 100
    assert ended.counted()[0] == sum(finished(stats).values())
    again = ["report-scenario", "-s", stat_file]
    report = commands.master(*again, prefix=small_disk.prefix).wait().fine()
    assert report.counted() == ended.counted()


def test_a_limit_on_the_size_of_files_is_as_good_as_a_full_disk(commands: Commands) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))

    ended = filled(commands, commands.place / "run.stat.gz", preexec_fn=limit)
    assert "too large" in ended.err
    assert sum(finished(stats_of(ended.results, damaged=True)).values()) > 100


def test_what_the_run_created_is_deleted_all_the_same(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6 * 1024, 6 * 1024))

    path = commands.scenario(container_base="fulldisk", crud_profile=[2, 1, 0, 0])
    options = ["-r", ROOM_S, *login(embedded_swift)]
    ended = commands.run("-f", path, *options, preexec_fn=limit).fine(1)
    assert ended.took_s < 45
    assert "could not be deleted" not in ended.err
    stats = stats_of(ended.results, damaged=True)
    assert stats.run.header is not None
    assert Account(embedded_swift).created("fulldisk", stats.run.run_id) == []


def test_a_stat_file_that_can_not_be_made_is_told_first(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    path = commands.scenario(container_base="nowhere")
    before = embedded_swift.access_log().stat().st_size
    stat_file = commands.place / "no" / "such" / "place.stat.gz"
    line = commands.run("-f", path, *login(embedded_swift), stat_file=stat_file).one_line()
    assert str(stat_file) in line
    assert embedded_swift.access_log().stat().st_size == before
