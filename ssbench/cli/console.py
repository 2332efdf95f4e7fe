"""What the commands write: messages on standard error, results on standard output, and files.

Names, reasons and error texts come from workers, stores and files, and are not trusted.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from ssbench.core.errors import ExitStatus, SsbenchError, UsageError, gravest
from ssbench.core.option import Option
from ssbench.core.text import plural, printable
from ssbench.host.files import OutputFile, open_file
from ssbench.host.process import discard
from ssbench.report import render, render_html

if TYPE_CHECKING:
    from ssbench.core.cpu_profile import CpuProfile
    from ssbench.report.model import Report
    from ssbench.runner.single_run import RunResult

MASK = "********"  #: in place of a secret
_GZIP = b"\x1f\x8b"  #: the first bytes of every stat file
_output_faults: list[str] = []  #: why standard output could not be written


def tell(text: object) -> None:
    """Print lines without control characters on standard error. If that fails, they are lost."""
    _write(sys.stderr, [f"{printable_lines(str(text))}\n"])


def say(text: object) -> None:
    """Print lines without control characters on standard output, or, if that can't be written, on
    standard error."""
    write_output([f"{printable_lines(str(text))}\n"])
    if _output_faults:
        tell(text)


def write_output(parts: Iterable[str]) -> None:
    """Write to standard output, piece by piece.

    A failed write does not end the command, because the run matters more than its output: the rest
    is dropped, and ``check_output`` reports it at the end.
    """
    error = _write(sys.stdout, parts)
    if error is not None and not isinstance(error, BrokenPipeError):  # the reader has seen enough
        _output_faults.append(f"cannot write to standard output: {error.strerror}")


def check_output() -> None:
    """:raises SsbenchError: something could not be written to standard output since last time."""
    faults = _output_faults.copy()
    _output_faults.clear()
    if faults:
        raise SsbenchError(faults[0])


def _write(stream: TextIO, parts: Iterable[str]) -> OSError | None:
    """Write, and return the error that ended it, if any."""
    try:
        stream.writelines(parts)
        stream.flush()
    except OSError as error:
        if not isinstance(error, BlockingIOError):  # a full pipe; it may take the next lines
            discard(stream)
        return error
    return None


def tell_status(reasons: Mapping[ExitStatus, str]) -> ExitStatus:
    """Print, as the last line, why the exit status is the gravest of these; returns it."""
    status = gravest([*reasons])
    if status is not ExitStatus.OK:
        tell(f"ssbench-master: {reasons[status]} (exit status {int(status)})")
    return status


def tell_results(result: RunResult, *, quiet: bool) -> None:
    """Print where the results of a run are, if there are any."""
    if result.has_results and not quiet:
        which = "Some results" if result.in_part else "Results"
        tell(f"INFO:{which} saved to {result.path}")


def printable_lines(text: str) -> str:
    """The text with its newlines, and without other control characters."""
    return "\n".join(map(printable, text.split("\n")))


def log_to_stderr(level: int, form: str) -> None:
    """Send the messages of all loggers to standard error, a line each.

    :param form: as of logging.Formatter.
    """
    handler = _StderrHandler()
    handler.setFormatter(PlainFormatter(form))
    logging.basicConfig(level=level, handlers=[handler])


class _StderrHandler(logging.Handler):
    """Writes to the sys.stderr of the moment: a live display replaces it, to show lines above."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001  # as all handlers do; a log must end nothing
            self.handleError(record)


class PlainFormatter(logging.Formatter):
    """Messages have one line, tracebacks several; neither has control characters."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        return printable_lines(super().formatException(ei))  # type: ignore[arg-type]


def write_result(parts: Iterable[str], path: str | None = None) -> None:
    """Write a report, piece by piece, to a file; None and ``-`` are standard output.

    :raises UsageError: the file is a stat file: a typing error must not cost a run.
    :raises SsbenchError: the file can't be written.
    """
    if path is None or path == "-":
        write_output(parts)
        return
    with _new_file(path, "w", encoding="utf-8") as file:
        file.writelines(parts)


def write_report(made: Report, form: str | None, path: str | None = None) -> None:
    """Write a report in that format; on a terminal its lines break between words.

    :raises UsageError, SsbenchError: as ``write_result``.
    """
    columns = columns_of(sys.stdout) if path in (None, "-") else None
    write_result([render(made, form or "text", columns)], path)


def columns_of(stream: TextIO) -> int | None:
    """Of the terminal that the stream is; None if it is none."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def result_file(path: str) -> AbstractContextManager[IO[bytes]]:
    """A new file of results that are not text.

    :raises UsageError, SsbenchError: as ``write_result``.
    """
    return _new_file(path, "wb")


@contextmanager
def _new_file(path: str, mode: str, encoding: str | None = None) -> Iterator[IO[Any]]:
    """A file that is written in the block. If that fails, it is removed if it was new."""
    _spare_stat_file(path)
    try:
        output = OutputFile(path, os.O_TRUNC)
        try:
            # A copy: closing it reports what a network file system could not write.
            with open(os.dup(output.descriptor), mode, encoding=encoding) as file:
                yield file
        except BaseException:
            output.discard()
            raise
        finally:
            output.close()
    except OSError as error:
        raise SsbenchError(f"{path}: can't be written: {error.strerror}") from error


def check_files(rows: Iterable[Option], ns: argparse.Namespace) -> None:
    """Check that a command can write the files that its options name, before it begins.

    :raises UsageError: one can't be written, or is a file of two options.
    """
    given = [(row, getattr(ns, row.name, None)) for row in rows if row.file]
    read = [
        (row, path)
        for row, value in given
        if row.file == "r"
        for path in (value if isinstance(value, (list, tuple)) else [value])
    ]
    written: list[tuple[Option, str]] = []
    for row, path in given:
        if path in (None, "-"):
            continue
        option = _shown(row)
        if row.file == "w":
            for other, source in read:
                if source is not None and _same_file(path, source):
                    raise UsageError(
                        f"{option} {path}: this is the file of {_shown(other)} itself; name another"
                    )
        if row.file in ("w", "x"):
            for other, target in written:
                if _is_file(path) and _same_file(path, target, may_be_new=True):
                    raise UsageError(
                        f"{option} {path}: this is the file of {_shown(other)}, too; name another"
                    )
            written.append((row, path))
            if row.file == "w" or not os.path.lexists(path):
                check_writable(path, option)


def _shown(row: Option) -> str:
    return row.flags[0] if row.flags else row.metavar or row.name


def check_writable(path: str, option: str) -> None:
    """Check that ``write_result`` can write a file, and leave everything as it is.

    :param option: that names the file.
    :raises UsageError: it can't.
    """
    _spare_stat_file(path)
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        return  # a pipe: opening it would wait for a reader, and closing end that
    try:
        with closing(OutputFile(path)) as output:
            output.discard()
    except OSError as error:
        hint = "; make the folder first" if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"{option} {path}: can't be written: {error.strerror}{hint}") from error


def _same_file(path: str, other: str, *, may_be_new: bool = False) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them does not exist
        return may_be_new and os.path.realpath(path) == os.path.realpath(other)


def _is_file(path: str) -> bool:
    """Whether a file is there, or would be made: no device or pipe, which takes all outputs."""
    return os.path.isfile(path) or not os.path.exists(path)


def _spare_stat_file(path: str) -> None:
    begin = b""
    with suppress(OSError, UsageError):  # writing will report it
        if Path(path).is_file():
            with open_file(path) as old:
                begin = old.read(len(_GZIP))
    if begin == _GZIP:
        raise UsageError(f"{path}: is a stat file and is not overwritten")


def prepare_streams() -> None:
    """Open standard streams that are closed (``2>&-``), so that no file takes their place, and
    escape characters that the encoding of standard output lacks (LC_ALL=C)."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        with suppress(OSError):  # its descriptor is closed; the first output will show it
            sys.stdout.reconfigure(errors="backslashreplace")


_SCRIPT = "plotly.min.js"
#: Options of commands that run: files that are made of the stat file.
_OF_RESULTS = ("csv", "csv_over_time", "html", "junit")


def check_run_files(ns: argparse.Namespace) -> None:
    """:raises UsageError: no results are kept that a file could be made of."""
    path = ns.stats_file
    if path and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        for name in _OF_RESULTS:
            if getattr(ns, name, None):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} needs stored results: {path} keeps none")


def junit_file(ns: argparse.Namespace) -> str | None:
    """The file of --junit, which commands without thresholds do not have."""
    return getattr(ns, "junit", None)


def write_report_files(ns: argparse.Namespace, made: Report) -> None:
    """Write the files of --html, --html-assets and --junit, where they are given.

    :raises SsbenchError: one of them can't be written.
    """
    path = junit_file(ns)
    if path:
        write_result([render(made, "junit")], path)
    if not ns.html:
        return
    script_url = None
    if ns.html_assets:
        from ssbench.report.as_html import plotly_script  # loads jinja2

        script = plotly_script()
        if script is None:
            tell("--html-assets: plotly is not installed: install ssbench[html] for charts")
        else:
            try:
                os.makedirs(ns.html_assets, exist_ok=True)
            except OSError as error:
                raise SsbenchError(f"--html-assets {ns.html_assets}: {error.strerror}") from error
            path = os.path.join(ns.html_assets, _SCRIPT)
            write_result([script], path)
            script_url = os.path.relpath(path, os.path.dirname(ns.html) or ".")
    write_result([render_html(made, script_url)], ns.html)
    if ns.html != "-" and not getattr(ns, "quiet", False):
        tell(f"INFO:Report as a page: {os.path.abspath(ns.html)}")


HOTTEST = 10


@contextmanager
def profiled(wanted: bool, what: str) -> Iterator[None]:
    """Sample the block, then say which functions took most CPU time."""
    from ssbench.host.sampler import StackSampler  # few commands need it

    sampler = StackSampler()
    if wanted:
        sampler.start()
    try:
        yield
    finally:
        profile = sampler.stop()
        if wanted:
            tell_profile(profile, what)


def tell_profile(profile: CpuProfile, what: str) -> None:
    """Write a profile to a new file; say where it is, and which functions are its hottest."""
    from ssbench.core.cpu_profile import collapsed, hot_functions  # few commands need these
    from ssbench.host.files import new_file

    fd, path = new_file(f"ssbench-{what}-", ".stacks")
    with open(fd, "w", encoding="utf-8") as file:
        file.writelines(collapsed(what, profile.stacks))
    cpu_ns = sum(profile.stacks.values())
    lines = [
        f"Profile of the {what}: {path} (for speedscope or flamegraph.pl)",
        f"{cpu_ns / 1e9:.2f} s of CPU time in {plural(profile.samples, 'sample')};"
        f" sampling took {profile.overhead_ns / 1e6:.1f} ms more",
    ]
    for each in hot_functions(profile.stacks)[:HOTTEST]:
        lines.append(f"{100 * each.self_ns / cpu_ns:6.1f} %  {each.function}")
    tell("\n".join(lines))
