"""What came from outside is shown on standard error, and steers no terminal."""

from __future__ import annotations

import io
import logging
import os
import re
import resource
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from ssbench.cli.console import (
    PlainFormatter,
    check_output,
    check_writable,
    discard,
    log_to_stderr,
    printable_lines,
    result_file,
    tell,
    tell_status,
    write_report,
    write_result,
)
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.live.watch import LiveJson
from ssbench.report import render
from ssbench.report.run import of_run
from tests.fakes.terminal import NASTY, FakeTerminal, steering
from tests.report import runs


def test_control_characters_in_messages_are_escaped() -> None:
    assert printable_lines("one\ntwo\x1b[2J") == "one\ntwo\\x1b[2J"
    assert not steering(printable_lines(NASTY))


def test_log_messages_are_one_line_and_tracebacks_are_escaped() -> None:
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(PlainFormatter("%(levelname)s:%(message)s"))
    log = logging.getLogger("test of plain")
    log.propagate = False
    log.addHandler(handler)
    try:
        log.warning("Worker %s is here", f"a{NASTY}\nERROR:forged")
        try:
            raise ValueError(NASTY)
        except ValueError:
            log.exception("A defect")
    finally:
        log.removeHandler(handler)
    lines = said.getvalue().splitlines()
    assert lines[0].startswith("WARNING:Worker a\\x1b[2J")
    assert not any(line.startswith("ERROR:forged") for line in lines)
    assert lines[1:3] == ["ERROR:A defect", "Traceback (most recent call last):"]
    assert not steering(said.getvalue())


@pytest.mark.parametrize(
    ("reasons", "status", "told"),
    [
        ({}, ExitStatus.OK, ""),
        ({ExitStatus.OK: "fine"}, ExitStatus.OK, ""),
        (
            {ExitStatus.THRESHOLD_MISSED: "missed p99", ExitStatus.FAILED: "a\x1b"},
            ExitStatus.FAILED,
            "ssbench-master: a\\x1b (exit status 1)\n",
        ),
        (
            {ExitStatus.THRESHOLD_MISSED: "missed p99"},
            ExitStatus.THRESHOLD_MISSED,
            "ssbench-master: missed p99 (exit status 3)\n",
        ),
    ],
)
def test_the_last_line_says_why_the_status_is_not_0(
    reasons: dict[ExitStatus, str],
    status: ExitStatus,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tell_status(reasons) is status
    assert capsys.readouterr() == ("", told)


@pytest.fixture
def full() -> Iterator[TextIO]:
    """A stream that takes nothing."""
    with open("/dev/full", "w") as stream:
        yield stream
        discard(stream)  # or its end would fail


def test_results_go_to_standard_output_or_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a"
    for target in (None, "-", str(path)):
        write_result(["a\n", "ä\n"], target)
    assert path.read_text("utf-8") == "a\nä\n"
    assert capsys.readouterr() == (2 * "a\nä\n", "")
    with result_file(str(path)) as file:
        file.write(b"\xff")
    assert path.read_bytes() == b"\xff"


def test_output_that_cannot_be_written_is_an_error_at_the_end(
    full: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", full)
    write_result(["x" * 100_000])
    write_result(["what is printed later is dropped"])
    with pytest.raises(SsbenchError, match="write to standard output: No space left on device"):
        check_output()
    check_output()  # it is told once


def test_messages_go_on_once_a_full_pipe_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with open(writer, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        for _ in range(100):
            tell("x" * 4096)
        os.read(reader, 1 << 20)
        tell("the last")
    assert os.read(reader, 1 << 20).endswith(b"the last\n")
    os.close(reader)


def test_results_overwrite_no_stat_file_and_name_a_place_that_takes_none(tmp_path: Path) -> None:
    stats, nowhere = tmp_path / "a.gz", str(tmp_path / "none" / "a")
    stats.write_bytes(b"\x1f\x8brest")
    with pytest.raises(UsageError, match=r"a\.gz: is a stat file and is not overwritten"):
        write_result(["x"], str(stats))
    with pytest.raises(UsageError, match="is not overwritten"), result_file(str(stats)):
        pass
    assert stats.read_bytes() == b"\x1f\x8brest"
    with pytest.raises(SsbenchError, match=r"none/a: can't be written: No such file"):
        write_result(["x"], nowhere)
    with pytest.raises(SsbenchError, match="can't be written"), result_file(nowhere):
        pass


@pytest.fixture
def file_limit() -> Iterator[int]:
    """The most bytes that a file can have; more is an error, as on a full disk."""
    before, limit = resource.getrlimit(resource.RLIMIT_FSIZE), 1 << 16
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_new_file_stays_that_was_written_in_part(tmp_path: Path, file_limit: int) -> None:
    new, link, old = (tmp_path / name for name in ("new", "link", "old"))
    link.symlink_to(tmp_path / "target")
    old.write_text("old")
    for path in (new, link, old):
        with pytest.raises(SsbenchError, match=f"{path.name}: can't be written: File too large"):
            write_result(["x"] * 2 * file_limit, str(path))
        with pytest.raises(SsbenchError, match="can't be"), result_file(str(path)) as file:
            file.write(b"x" * 2 * file_limit)
    with pytest.raises(KeyboardInterrupt), result_file(str(new)):
        raise KeyboardInterrupt
    assert {path.name for path in tmp_path.iterdir()} == {"link", "old"}


def test_what_another_user_has_placed_is_not_written_and_no_other_file_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp, where a run writes its report in the end."""
    mine, out, new, free = (tmp_path / name for name in ("mine", "out", "new", "free"))
    mine.write_text("mine")
    real = os.fstat

    def fstat(file: int) -> os.stat_result:
        """As if links and FIFOs, and files with this mode, were another user's."""
        facts = real(file)
        mode = facts.st_mode
        is_placed = stat.S_ISLNK(mode) or stat.S_ISFIFO(mode) or stat.S_IMODE(mode) == 0o606
        return os.stat_result([*facts[:4], os.geteuid() + is_placed, *facts[5:10]])

    def is_refused(why: str = "another user has placed it there") -> None:
        said = f"can't be written: {re.escape(why)}"
        with pytest.raises(SsbenchError, match=f"out: {said}"):
            write_result(["x"], str(out))
        with pytest.raises(SsbenchError, match=f"--live-json .*out: {said}"):
            LiveJson(str(out), pytest.fail)

    monkeypatch.setattr("ssbench.host.files.os.fstat", fstat)
    for target in (mine, tmp_path / "none"):
        out.symlink_to(target)
        is_refused()
        with pytest.raises(UsageError, match=r"--csv .*out: can't be written: another user has"):
            check_writable(str(out), "--csv")
        out.unlink()
    for folder in (tmp_path / "way", tmp_path / "a" / "b" / "way"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.symlink_to(tmp_path)
        folder.parent.chmod(0o1777)
        for on in (folder / "mine", folder / "none" / "mine"):
            with pytest.raises(SsbenchError, match="placed the link way there"):
                write_result(["x"], str(on))
        folder.parent.chmod(0o775)
        write_result(["mine"], str(folder / "mine"))
        folder.unlink()
    shutil.rmtree(tmp_path / "a")
    free.write_text("theirs")
    free.chmod(0o606)
    write_result(["x"], str(free))
    tmp_path.chmod(0o1777)
    os.mkfifo(out)
    is_refused()
    free.rename(out)
    is_refused()
    assert out.read_text() == "x"
    out.unlink()
    os.link(mine, out)  # as Linux lets others do with fs.protected_hardlinks=0
    for mode in (0o1777, 0o770):
        tmp_path.chmod(mode)
        is_refused("it has another name (a hard link), and another user may have made this one")
    tmp_path.chmod(0o755)
    write_result(["mine"], str(out))
    out.unlink()
    parts = (f"{mine.rename(new)}\ud800" for _ in "x")  # it is replaced while it is written
    with pytest.raises(UnicodeEncodeError):
        write_result(parts, str(new))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("new", "mine")]


def test_outputs_go_where_own_links_lead(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to("second")
    second.symlink_to("folder/file")
    check_writable(str(first), "--csv")
    assert not second.exists()
    for text in ("a longer one", "x"):
        write_result([text], str(first))
        assert (tmp_path / "folder" / "file").read_text() == text
    way, back = tmp_path / "way", tmp_path / "folder" / "back"
    way.symlink_to(tmp_path / "folder")
    back.symlink_to("../way/../way")
    for text, path in (("1", way / "file"), ("2", back / "file"), ("3", back / "../folder//file")):
        write_result([text], f"{path}")
        assert (tmp_path / "folder" / "file").read_text() == text
    back.unlink()
    back.symlink_to("../way/back")
    for path, why in ((back, "Too many levels"), (first, "Not a directory"), (tmp_path, "Is a")):
        with pytest.raises(SsbenchError, match=f"can't be written: {why}"):
            write_result(["x"], f"{path}/{'x' * (path != tmp_path)}")
    second.unlink()
    second.symlink_to("first")
    with pytest.raises(SsbenchError, match="first: can't be written: Too many levels of symbolic"):
        write_result(["x"], str(first))
    reader, writer = os.pipe()
    for folder in ("/dev/fd", "/proc/self/fd", f"/proc/{os.getpid()}/fd"):
        second.unlink()
        second.symlink_to(f"{folder}/{writer}")
        write_result(["x"], str(first))
    assert os.read(reader, 9) == b"xxx"
    os.close(reader)
    os.close(writer)


def test_a_pipe_stays_when_its_reader_has_gone(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(str(pipe), "--csv")  # it is not opened before there are results
    for path in (tmp_path, tmp_path / "none" / "x.csv"):
        with pytest.raises(UsageError, match=f"--csv {path}: can't be written"):
            check_writable(str(path), "--csv")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    parts = (os.close(reader) or text for text in "x")  # it goes once the pipe is open
    with pytest.raises(SsbenchError, match="can't be written: Broken pipe"):
        write_result(parts, str(pipe))
    assert pipe.is_fifo()


def test_a_log_that_cannot_be_written_ends_nothing(
    full: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.Logger("root")
    monkeypatch.setattr(logging, "root", root)
    log_to_stderr(logging.INFO, "%(message)s")
    monkeypatch.setattr(sys, "stderr", full)
    root.info("lost")


def test_a_report_fits_the_terminal_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = of_run(runs.stats_of(runs.normal()))
    monkeypatch.setenv("COLUMNS", "70")
    for stream, longest in ((FakeTerminal(), 70), (FakeTerminal(isatty=False), 148)):
        monkeypatch.setattr(sys, "stdout", stream)
        write_report(made, None)
        assert max(map(len, stream.getvalue().splitlines())) <= longest
        assert (stream.getvalue() == render(made)) is (longest == 148)
