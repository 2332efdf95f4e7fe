"""Options that name files: checked before a command begins, with one exit status."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ssbench.cli.commands import COMMANDS
from ssbench.cli.options import STORE_OPTIONS
from ssbench.core.option import path as folder
from tests.cli.shell import Shell
from tests.golden import compare

STORE = ["--storage", "file", "--path"]
STATS = compare.FOLDER / "format-1" / "stages.stat.gz"


def test_each_option_with_a_file_says_what_becomes_of_it() -> None:
    """Else nothing checks it before the run."""
    without = {
        (name, row.name)
        for name, command in COMMANDS.items()
        for row in {*command.rows}.difference(STORE_OPTIONS)
        if {"FILE", "DIR"} & {*(row.metavar or "").replace("_", " ").split()}
        and not (row.file or row.type is folder)
    }
    assert without == set()


@pytest.mark.parametrize(
    "words",
    [
        "upload DIR --container c -s BAD",
        "upload DIR --container c --sweep users=1,2 -s BAD",
        "download --container c -s BAD",
        "bench put c --csv BAD",
        "bench mixed c --csv-over-time BAD",
        "bench suite --csv-dir BAD",
        "replay LOG --html BAD",
        "replay LOG -s BAD",
        "find-limit -f very_small --slo errors<1% -s BAD",
        "run-scenario -f very_small --html BAD",
        "run-scenario -f very_small --sweep users=1,2 -s BAD",
        "make-scenario --from-container c --output BAD",
        "make-scenario --from-access-log LOG --output BAD",
    ],
)
def test_a_file_that_cannot_be_written_is_a_usage_error_before_all_else(
    words: str, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").touch()
    bad = tmp_path / "none" / "x"
    places = {"DIR": tmp_path / "d", "BAD": bad, "LOG": tmp_path / "no-log"}
    given = [str(places.get(word, word)) for word in words.split()]
    option = given[given.index(str(bad)) - 1]
    said = shell(*given, *STORE, tmp_path / "no-store")
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith(f"ssbench-master: {option}")
    assert said.err.endswith("written: No such file or directory; make the folder first\n")


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("report-scenario STATS --time-series NEW --operations NEW", "--time-series"),
        ("report-scenario STATS -f NEW --html ./NEW", "-f"),
        ("report-scenario STATS -f NEW --html LINK", "-f"),
        ("report-scenario STATS --csv -f OLD --junit HARD", "-f"),
        ("run-scenario --noop -f very_small --html NEW --junit NEW", "--html"),
        ("run-scenario --noop -f very_small --html NEW --live-json NEW", "--html"),
        ("run-scenario --noop -f very_small -s z.stat.gz --html z.stat.gz", "-s"),
        ("run-scenario --noop -f very_small -s z.stat --live-json z.stat.gz", "-s"),
        ("run-scenario --noop -f very_small --force -s STATS.gz --junit STATS.gz", "-s"),
        ("find-limit --noop -f very_small --slo p99<1s -s z.gz --html ./z.gz", "-s"),
        ("replay LOG --noop --html NEW --junit NEW", "--html"),
        ("bench put c --noop --csv NEW --csv-over-time NEW", "--csv"),
    ],
)
def test_one_file_for_two_outputs_is_a_usage_error_before_all_else(
    words: str, first: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("STATS", "STATS.gz"):
        shutil.copy(STATS, name)
    Path("LINK").symlink_to(tmp_path / "NEW")
    Path("OLD").write_text("precious")
    os.link("OLD", "HARD")
    before = sorted(os.listdir())
    *_, option, path = words.split()
    told = f"ssbench-master: {option} {path}: this is the file of {first}, too; name another\n"
    assert shell(*words.split()) == (2, "", told)
    assert sorted(os.listdir()) == before
    assert Path("OLD").read_text() == "precious"


def test_a_stream_or_a_device_takes_several_outputs(shell: Shell) -> None:
    reader, writer = os.pipe()  # what a shell makes of >(...)
    for path in ("-", "/dev/null", f"/dev/fd/{writer}"):
        said = shell("report-scenario", "-s", STATS, "-f", path, "--junit", path)
        assert said.status == 0
        if path == "-":
            printed = said.out
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        assert pipe.read() == printed


def test_the_stat_file_of_a_later_step_is_reported_before_the_first(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").touch()
    (tmp_path / "x.store-2.stat.gz").write_text("precious")
    words = ["--container", "c", "--sweep", "users=1,2", "-s", tmp_path / "x.stat.gz"]
    words += ["--checksum", "store", *STORE, tmp_path / "no-store"]
    said = shell("upload", tmp_path / "d", *words)
    assert said.status == 2
    assert "x.store-2.stat.gz: is there already" in said.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["upload", "", "--container", "c"], "is empty: give the path of a folder"),
        (["report-scenario", "-s", ""], "-s/--stats-file: is empty"),
        (["report-scenario", "-s", "x", "--html", ""], "--html: is empty"),
        (["upload", "u\udcff", "--container", "c"], "is not UTF-8"),
        (["upload", "d", "--container", "c/\udcff"], "--container: is not UTF-8"),
        (["bench", "files", "read", "g\udcff"], "is not UTF-8"),
        (["bench", "put", "c", "p\udcff"], "is not UTF-8"),
    ],
)
def test_names_that_are_empty_or_not_utf8_are_usage_errors(
    words: list[str], says: str, shell: Shell
) -> None:
    said = shell(*words)
    assert said.status == 2
    assert says in said.err


def test_files_of_this_host_may_have_any_name(shell: Shell, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/g\xff\x1b[31m")
    for words, status, names in (
        (["gen-files", odd, "2", "10k"], 0, True),
        (["diff-dirs", odd, odd], 0, False),
        (["make-key", f"{odd}.key"], 0, True),
        (["report-scenario", "-s", f"{odd}/none"], 2, True),
    ):
        said = shell(*words)
        assert said.status == status
        assert "\x1b" not in said.out + said.err
        assert ("g\\udcff\\x1b[31m" in said.out + said.err) is names
