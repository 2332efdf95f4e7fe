"""gen-files, diff-dirs and bench files: what becomes of their options, and what they print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ssbench.commands.files import command as files_commands
from ssbench.commands.files.command import FilesStep
from ssbench.commands.files.settings import FilesConfig
from ssbench.core.live import Observer
from ssbench.live.watch import Watch
from tests.cli.shell import Shell

GOOD = FilesStep(4, 20, 1_000_000, 1_638_400, 0.25, 3, 0)
BAD = FilesStep(8, 20, 1_000_000, 1_638_400, 0.25, 3, 1, "file_3.txt: gone\x1b")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[FilesConfig]:
    """The configurations of measurements, which give a good step; a bad one of the folder "bad"."""
    found: list[FilesConfig] = []

    def measure(
        config: FilesConfig, observers: Sequence[Observer], *others: object
    ) -> Iterator[FilesStep]:
        found.append(config)
        assert [type(each) for each in observers] == [Watch]
        if config.folder != "none":
            yield GOOD
        if config.folder == "bad":
            yield BAD

    monkeypatch.setattr(files_commands, "measure", measure)
    return found


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (
            "read d",
            {
                "method": "read", "folder": "d", "target": None, "users": (1,), "files": (),
                "passes": 1, "seconds": 0, "queue": None,
                "store": {"io_buffer": 8192, "page_cache": "keep"},
            },
        ),
        ("write d", {"store": {"io_buffer": 4 << 20, "page_cache": "keep"}}),
        ("copy d --to e", {"method": "copy", "target": "e", "folder": "d"}),
        (
            "copy d --buffer 64k --fsync --direct --page-cache drop",
            {"store": {"io_buffer": 65536, "page_cache": "drop", "fsync": True, "direct": True}},
        ),
        (
            "read d --sweep users=1,4 --sweep files=9 --sweep users=8",
            {"users": [1, 4, 8], "files": [9]},
        ),
        ("read d --repeat 3 --time 2.5 --queue 7", {"passes": 3, "seconds": 2.5, "queue": 7}),
    ],
)  # fmt: skip
def test_options_come_to_the_measurement(
    words: str, settings: dict[str, Any], asked: list[FilesConfig], shell: Shell
) -> None:
    assert shell("bench", "files", *words.split()).status == 0
    assert {name: getattr(asked[0], name) for name in settings} == settings


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        ("read d", {"users": "4", "buffer": "8 KiB", "files": "20"}),
        ("write d", {"users": "4", "files": "20"}),
        ("copy d", {"users": "4", "buffer": "4 MiB", "queue": "auto", "files": "20"}),
        (
            "copy d --queue 7 --buffer 1500",
            {"users": "4", "buffer": "1.465 KiB", "queue": "7", "files": "20"},
        ),
    ],
)
def test_a_table_has_the_columns_of_its_method(
    words: str, cells: dict[str, str], asked: list[FilesConfig], shell: Shell
) -> None:
    status, out, err = shell("bench", "files", *words.split())
    heads, rule, row, rest = out.splitlines()
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (heads, row)]
    wanted = {**cells, "total size": "976.6 KiB", "cost": "0.25s", "speed": "4 MiB/s"}
    assert dict(zip(*found, strict=True)) == wanted
    assert len(heads) == len(rule) == len(row) == 13 * len(wanted) + 1
    assert rest == "Disk usage (du): 1.562 MiB for 976.6 KiB of content."
    assert (status, err) == (0, "")


def test_failures_are_in_the_table_and_in_the_status(
    asked: list[FilesConfig], shell: Shell
) -> None:
    status, out, err = shell("bench", "files", "read", "bad")
    assert [cell.strip() for cell in out.splitlines()[-1].split("|")[-4:-1]] == [
        "-", "failed", "-",
    ]  # fmt: skip
    assert out.count("users") == 1, "one head"
    assert (status, err) == (1, "WARNING: 1 operation failed: file_3.txt: gone\\x1b\n")


def test_an_early_end_prints_no_table(asked: list[FilesConfig], shell: Shell) -> None:
    assert shell("bench", "files", "read", "none") == (0, "", "")


def test_reads_have_no_target(asked: list[FilesConfig], shell: Shell) -> None:
    said = shell("bench", "files", "read", "d", "--to", "e")
    assert said == (2, "", "ssbench-master: --to: read writes nothing\n")
    assert asked == []


def test_folders_are_made_and_compared(shell: Shell) -> None:
    first, second = shell.folder / "a", shell.folder / "b"
    for folder in (first, second):
        assert shell("gen-files", folder, "1", "3k") == (0, f"{folder}: 1 file, 3 KiB\n", "")
    assert shell("diff-dirs", first, first) == (0, "", "")
    (second / "more").touch()
    said = shell("diff-dirs", first, second)
    assert said.status == 1
    assert f"only in {second}: more\n" in said.out
