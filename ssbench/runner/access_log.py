"""Reads the files of access logs."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BufferedReader
from typing import IO, cast

from ssbench.core.accesslog.formats import MAX_LINE, LineParser, masked
from ssbench.core.accesslog.requests import RequestLog
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.text import plural, printable
from ssbench.runner.stop import Stop

_GZIP = b"\x1f\x8b"
_SHOW_EVERY = 50_000  #: lines
_SHOWN = 3  #: lines that are not understood


@dataclass(slots=True)
class LogFiles:
    """What was read."""

    requests: RequestLog
    lines: int = 0  #: empty ones excluded
    not_understood: int = 0
    #: Place and form of the first of these.
    examples: list[str] = field(default_factory=list)

    @property
    def used(self) -> int:
        """Lines whose requests are neither left out nor unknown."""
        return self.lines - self.not_understood - self.requests.left_out.total()

    @property
    def left_out(self) -> Mapping[str, int]:
        """Requests that are no operations, by reason, the most frequent first."""
        return dict(self.requests.left_out.most_common())


def read_logs(
    paths: Sequence[str],
    requests: RequestLog,
    format_name: str = "",
    show: Callable[[str], None] = lambda text: None,
    stop: Stop | None = None,
) -> LogFiles:
    """Read the lines of these files, plain or compressed with gzip; ``-`` is standard input.

    :param format_name: a key of FORMATS; "": found by the lines.
    :param show: called with what is done, from time to time.
    :raises UsageError: a file has no line of an access log, or can't be read.
    :raises SsbenchError: a compressed file is damaged.
    :raises KeyboardInterrupt: it was stopped.
    """
    found = LogFiles(requests)
    for path in paths:
        name = "standard input" if path == "-" else printable(path)
        parser = LineParser(format_name)
        understood, lines = 0, 0
        first = ""
        for number, line in enumerate(_lines(path, name), 1):
            if number % _SHOW_EVERY == 0:
                if stop:
                    stop.check()
                show(f"Reading {name}: {number:,} lines")
            if not line.strip():
                continue
            lines += 1
            parsed = parser.parse(line) if len(line) < MAX_LINE else None
            if parsed is not None:
                understood += 1
                requests.add(parsed)
                continue
            found.not_understood += 1
            first = first or f"line {number}: {masked(line)}"
            if len(found.examples) < _SHOWN:
                found.examples.append(f"{name}, line {number}: {masked(line)}")
        found.lines += lines
        if not lines:
            raise UsageError(f"{name}: is empty; give an access log")
        if not understood:
            known = "an access log of a Swift proxy, S3 or a web server"
            wanted = f"the format {format_name}" if format_name else f"the format of {known}"
            raise UsageError(f"{name}: no line has {wanted}; letters and digits masked, {first}")
    show("")
    if not len(requests):
        reasons = ", ".join(f"{why} ({n:,})" for why, n in found.left_out.items())
        raise UsageError(f"{plural(found.lines, 'line')}, and no operation among them: {reasons}")
    return found


def _lines(path: str, name: str) -> Iterator[bytes]:
    """Lines of a file; a line of MAX_LINE bytes or more as its first MAX_LINE."""
    try:
        with ExitStack() as stack:
            if path == "-":
                raw = cast(BufferedReader, sys.stdin.buffer)
            else:
                raw = stack.enter_context(open(path, "rb"))
            file: IO[bytes] = raw
            if raw.peek(2)[:2] == _GZIP:
                file = cast(IO[bytes], stack.enter_context(gzip.open(raw)))
            while line := file.readline(MAX_LINE):
                yield line
                while len(line) == MAX_LINE and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SsbenchError(f"{name}: is damaged, or cut off: {error}") from error
    except OSError as error:
        raise UsageError(f"{name}: can't be read: {error.strerror or error}") from error
