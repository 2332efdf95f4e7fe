"""Reads the files of access logs, and makes a scenario of their operations, sizes and rate."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from io import BufferedReader
from typing import IO, cast

from msgspec import Struct

from ssbench.commands.replay.formats import BATCHED, MAX_LINE, LineParser, masked
from ssbench.commands.replay.requests import RequestLog, Requests
from ssbench.commands.replay.sampling import MOST_INITIAL, SizeHistogram, scenario_text
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.model import SECOND_NS
from ssbench.core.operations import Effect, row_of
from ssbench.core.text import plural, printable
from ssbench.host.files import open_file
from ssbench.runner.stop import Stop

#: How compressed files begin, the format, and the module that reads it with its error; None: none.
_COMPRESSED = (
    (b"\x1f\x8b", "gzip", ("gzip", "BadGzipFile")),
    (b"BZh", "bzip2", ("bz2", "")),
    (b"\xfd7zXZ\0", "xz", ("lzma", "LZMAError")),
    (b"(\xb5/\xfd", "zstd", None),
    (b'\x04"M\x18', "lz4", None),
    (b"PK\x03\x04", "zip", None),
    (b"\x1f\x9d", "compress", None),
)
_SHOW_EVERY = 50_000  #: lines
_SHOWN = 3  #: lines that are not understood
#: Names of the size classes, and below how many bytes their objects are.
_CLASSES = (
    ("tiny", 16 << 10), ("small", 256 << 10), ("medium", 4 << 20), ("large", 64 << 20),
    ("huge", 1 << 62),
)  # fmt: skip
#: Swift by default, and S3, take no more in one request: larger objects there are of parts.
_MOST_SIZE = (5 << 30) - 1
_LEAST_INITIAL = 100  #: with fewer, the classes' shares of the load could not be kept
#: Reason why requests are left out of a scenario.
TOO_LARGE = "of objects of 5 GiB or more, which most stores take in parts only"
_SECONDS = 60
_USERS, _MOST_USERS = 64, 1024


class LogFiles(Struct):
    """What was read."""

    requests: RequestLog
    lines: int = 0  #: empty ones excluded
    not_understood: int = 0
    #: Place and form of the first of these.
    examples: list[str] = []

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
    """Read the lines of these files, plain or compressed; ``-`` is standard input.

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
            known = "an access log of a Swift proxy, S3, RGW, HAProxy or a web server"
            wanted = f"the format {format_name}" if format_name else f"the format of {known}"
            raise UsageError(f"{name}: no line has {wanted}; letters and digits masked, {first}")
    show("")
    if not len(requests):
        reasons = ", ".join(f"{why} ({n:,})" for why, n in found.left_out.items())
        raise UsageError(f"{plural(found.lines, 'line')}, and no operation among them: {reasons}")
    return found


def _lines(path: str, name: str) -> Iterator[bytes]:
    """Lines of a file; a line of MAX_LINE bytes or more as its first MAX_LINE."""
    damage: tuple[type[Exception], ...] = (EOFError, zlib.error)
    try:
        with ExitStack() as stack:
            if path == "-":
                raw = cast(BufferedReader, sys.stdin.buffer)
            else:
                raw = stack.enter_context(open_file(path))
            file: IO[bytes] = raw
            begin = raw.peek(8)
            for magic, form, reader in _COMPRESSED:
                if not begin.startswith(magic):
                    continue
                if reader is None:
                    raise UsageError(
                        f"{name}: is compressed with {form}, which can't be read here: decompress"
                        " it, and give the file, or - for standard input"
                    )
                module = import_module(reader[0])  # together they take 2 MB
                damage += (getattr(module, reader[1], EOFError),)
                file = stack.enter_context(module.open(raw))
            while line := file.readline(MAX_LINE):
                yield line
                while len(line) == MAX_LINE and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE)
    except damage as error:
        raise SsbenchError(f"{name}: is damaged, or cut off: {error}") from error
    except OSError as error:
        if error.errno is None:  # of bz2
            raise SsbenchError(f"{name}: is damaged, or cut off: {error}") from error
        raise UsageError(f"{name}: can't be read: {error.strerror or error}") from error


class LogScenario(Struct, frozen=True):
    """A scenario of an access log, and what it was made of."""

    text: str  #: JSON
    mean_per_s: float  #: requests
    peak_per_s: int  #: in the busiest second
    seconds: float  #: from the first to the last request
    exponent: float | None  #: of Zipf's law; None: uniform
    uploaded_bytes: float  #: that are uploaded before the run, about


def scenario_of_log(name: str, log: RequestLog, initial: int | None = None) -> LogScenario:
    """A scenario with the operations, sizes and rate of a log, as an open loop of a minute.

    A size class has the operations on its objects; its initial objects are its share of all
    requests, because the load is drawn by these.

    :param log: is empty afterwards.
    :param initial: number of initial objects; None: as many as the log has, from 100 to a limit,
        or more if the run deletes more.
    :raises ScenarioError: it is not valid.
    """
    batched = log.left_out[BATCHED]
    busy_ns, timed = log.busy_ns, log.timed
    arranged = log.arrange(with_sets=True)
    requests = arranged.without_larger(_MOST_SIZE)
    log.left_out[TOO_LARGE] += len(arranged) - len(requests)
    del arranged
    log.left_out = +log.left_out
    if not len(requests):
        raise UsageError("the log has no request that is an operation on objects")
    seconds, total = requests.seconds, len(requests)
    mean, peak = total / seconds, requests.most_within(SECOND_NS)
    exponent = requests.zipf_exponent()
    classes, weights = _size_classes(requests)
    parameters = _parameters(requests, batched)
    files = _initial_files(weights, len(requests.objects), mean * _SECONDS, parameters, initial)
    users = _USERS
    if timed:
        in_flight = busy_ns / timed * mean / SECOND_NS
        users = min(max(math.ceil(4 * in_flight * peak / mean), 16), _MOST_USERS)
    rest: dict[str, object] = {
        "initial_files": files,
        "rate": round(mean, 3),
        "arrivals": "poisson",
        "run_seconds": _SECONDS,
        "user_count": users,
        **parameters,
    }
    if exponent is not None:
        rest["pick"] = {"zipf": round(exponent, 3)}
    rows = {
        label: (
            sizes,
            {"operations": {row_of(each).name.lower(): n for each, n in weights[label].items()}},
        )
        for label, sizes in classes.items()
    }
    uploaded = sum(sizes.mean * files[label] for label, sizes in classes.items())
    text = scenario_text(name, rows, rest)
    return LogScenario(text, mean, peak, seconds, exponent, uploaded)


def _size_classes(
    requests: Requests,
) -> tuple[dict[str, SizeHistogram], dict[str, dict[int, int]]]:
    """By name: the sizes of each class's objects, and how often each operation is on them.

    Operations without an object count for the class with the most requests.
    """
    classes: dict[str, SizeHistogram] = {}
    weights: dict[str, dict[int, int]] = {}
    low = 0
    for label, high in _CLASSES:
        some = requests.of_sizes(low, high)
        if some:
            weights[label] = some.counts
            least = max(row_of(each).least_size for each in some.counts)
            classes[label] = SizeHistogram()
            for size, count in some.size_counts():
                classes[label].add(max(size, least), count)
        low = high
    if not classes:
        classes["tiny"], weights["tiny"] = SizeHistogram(), {}
        classes["tiny"].add(0)
    busiest = max(weights, key=lambda label: sum(weights[label].values()))
    for operation, count in requests.without_object.items():
        weights[busiest][operation] = weights[busiest].get(operation, 0) + count
    return classes, weights


def _parameters(requests: Requests, batched: int) -> dict[str, int]:
    """Keys of the scenario for its operations: bytes of parts, and objects of sets."""
    found = {}
    for operation, count in requests.counts.items():
        row = row_of(operation)
        for each in row.parameters:
            if each.is_size:
                moved = requests.mean_moved(operation)
                found[each.key] = min(moved, each.high) if moved else int(each.default)
            elif each.key == row.set_key and batched:
                found[each.key] = min(max(round(batched / count), each.low), each.high)
    return found


def _initial_files(
    weights: Mapping[str, Mapping[int, int]],
    objects: int,
    operations: float,
    parameters: Mapping[str, int],
    initial: int | None,
) -> dict[str, int]:
    """Initial objects of each class, as its share of all requests; enough for the removals."""
    total = sum(sum(each.values()) for each in weights.values())
    wanted = initial
    if wanted is None:
        wanted = min(max(objects, _LEAST_INITIAL), MOST_INITIAL)
        removed = 0.0
        for counts in weights.values():
            more = 0.0
            for operation, count in counts.items():
                row = row_of(operation)
                each = parameters.get(row.set_key, row.set_size) if row.set_key else 1
                more += (
                    count * each * ((row.effect is Effect.REMOVES) - (row.effect is Effect.CREATES))
                )
            removed = max(removed, more / max(sum(counts.values()), 1))
        wanted = max(wanted, math.ceil(1.5 * removed * operations))
    return {
        label: max(round(wanted * sum(counts.values()) / total), 1)
        for label, counts in weights.items()
    }
