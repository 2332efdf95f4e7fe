"""Reads access logs: their files, and all requests of these in arrays.

A request takes 45 bytes, and an object 16. A name becomes a number: 46 bits of a hash of container
and object, and 7 bits that stand for the container. Nothing else is kept of it. (Two of a million
names share a number with a probability of 1 %; they are one object then.)
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from importlib import import_module
from io import BufferedReader
from typing import IO, cast
from zlib import crc32

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ssbench.commands.replay.formats import (
    MAX_LINE,
    UNKNOWN,
    LeftOut,
    LineParser,
    Parsed,
    masked,
)
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.model import SECOND_NS
from ssbench.core.naming import HASHED_CONTAINERS
from ssbench.core.operations import LOGGED, Effect, Operation, Target, row_of
from ssbench.core.text import plural, printable
from ssbench.host.files import open_file
from ssbench.runner.stop import Stop

#: How compressed files begin, the format, and the module that reads it with its function and error;
#: None: none.
_COMPRESSED = (
    (b"\x1f\x8b", "gzip", ("gzip", "open", "BadGzipFile")),
    (b"BZh", "bzip2", ("bz2", "open", "")),
    (b"\xfd7zXZ\0", "xz", ("ssbench.commands.replay.xz", "open_xz", "LZMAError")),
    (b"(\xb5/\xfd", "zstd", None),
    (b'\x04"M\x18', "lz4", None),
    (b"PK\x03\x04", "zip", None),
    (b"\x1f\x9d", "compress", None),
)
_SHOW_EVERY = 50_000  #: lines
_SHOWN = 3  #: lines that are not understood


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
        for number, line in enumerate(_lines(path, name, stop), 1):
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


def _lines(path: str, name: str, stop: Stop | None) -> Iterator[bytes]:
    """Lines of a file; a line of MAX_LINE bytes or more as its first MAX_LINE.

    :param stop: looked at within such a line, which may have no end.
    """
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
                damage += (getattr(module, reader[2], EOFError),)
                file = stack.enter_context(getattr(module, reader[1])(raw))
            while line := file.readline(MAX_LINE):
                yield line
                while len(line) == MAX_LINE and not line.endswith(b"\n"):
                    if stop:
                        stop.check()
                    line = file.readline(MAX_LINE)
    except damage as error:
        raise SsbenchError(f"{name}: is damaged, or cut off: {error}") from error
    except OSError as error:
        if error.errno is None:  # of bz2
            raise SsbenchError(f"{name}: is damaged, or cut off: {error}") from error
        raise UsageError(f"{name}: can't be read: {error.strerror or error}") from error


Ints = npt.NDArray[np.int64]

_MOST_SIZE = 1 << 52  #: bytes; a log that says more is wrong
#: Containers that are told apart by order; more than these share the numbers by hash.
_MOST_CONTAINERS = 4096
#: When a popularity is measured well: objects, uses of each on average, exponents, and the
#: distance of the cumulative distributions (Kolmogorov-Smirnov).
_LEAST_OBJECTS, _LEAST_USES = 50, 10
_LEAST_EXPONENT, _MOST_EXPONENT = 0.2, 5.0
_MOST_DISTANCE = 0.05
DELETED_BEFORE = "of objects that the log deleted before"
NO_NAMES = "bulk deletes: a log does not name their objects"


class RequestLog:
    """Collects the requests of logs, in any order of time.

    :param start_ns, end_ns: Unix time; others are left out. None: no limit.
    :param most: requests; those beyond are left out. None: no limit.
    """

    def __init__(
        self, start_ns: int | None = None, end_ns: int | None = None, most: int | None = None
    ) -> None:
        self.left_out: Counter[str] = Counter()  #: requests, by reason
        self.layouts: Counter[str] = Counter()  #: of paths that have a container, by layout
        self._start_ns = -(1 << 62) if start_ns is None else start_ns
        self._end_ns = 1 << 62 if end_ns is None else end_ns
        self._most = 1 << 62 if most is None else most
        self._containers: dict[bytes, int] = {}
        self.busy_ns = 0  #: sum of the durations that are known
        self.timed = 0  #: how many are
        self._at = array("q")
        self._number = array("q")
        self._size = array("q")
        self._moved = array("q")
        self._operation = array("H")

    def __len__(self) -> int:
        return len(self._at)

    def __repr__(self) -> str:
        return f"<RequestLog {len(self)} requests, {self.left_out.total()} left out>"

    @property
    def container_count(self) -> int:
        """Containers that were used, up to HASHED_CONTAINERS."""
        return max(min(len(self._containers), HASHED_CONTAINERS), 1)

    def add(self, parsed: Parsed) -> None:
        """Count a line."""
        at_ns = parsed.at_ns
        if not self._start_ns <= at_ns < self._end_ns:
            self.left_out["outside --start and --end"] += 1
            return
        if isinstance(parsed, LeftOut):
            self.left_out[parsed.reason] += 1
            return
        if len(self._at) >= self._most:
            self.left_out["beyond --max-requests"] += 1
            return
        request, container, name, _at, size, moved, duration_ns, layout = parsed
        if layout:
            self.layouts[layout] += 1
        index = self._containers.get(container)
        if index is None:
            if len(self._containers) < _MOST_CONTAINERS:
                index = len(self._containers) % HASHED_CONTAINERS
                self._containers[container] = index
            else:
                index = crc32(container) % HASHED_CONTAINERS
        number = index
        if name:
            digest = blake2b(container + b"/" + name, digest_size=8, person=b"ssbench").digest()
            number += int.from_bytes(digest, "big") >> 18 << 7
        if duration_ns != UNKNOWN:
            self.busy_ns += duration_ns
            self.timed += 1
        self._at.append(at_ns)
        self._number.append(number)
        self._size.append(min(max(size, moved), _MOST_SIZE))
        self._moved.append(min(moved, _MOST_SIZE))
        self._operation.append(LOGGED[request][0])

    def arrange(self, *, with_sets: bool = False) -> Requests:
        """The requests in the order of time; the log is empty afterwards.

        Times of whole seconds are spread evenly over their second. Of an upload it is decided
        whether it makes or replaces its object, by what the log shows of the object before.

        :param with_sets: also requests on sets of objects, which the log does not name.
        """
        order = np.argsort(np.frombuffer(self._at, np.int64), kind="stable").astype(np.uint32)
        # Each array is freed before the next one is copied.
        at = _spread(np.frombuffer(self._at, np.int64)[order])
        self._at = array("q")
        operations = np.frombuffer(self._operation, np.uint16)[order]
        self._operation = array("H")
        sizes = np.frombuffer(self._size, np.int64)[order]
        self._size = array("q")
        moved = np.frombuffer(self._moved, np.int64)[order]
        self._moved = array("q")
        numbers = np.frombuffer(self._number, np.int64)[order]
        self._number = array("q")
        del order
        objects = np.unique(numbers)
        slots = np.searchsorted(objects, numbers).astype(np.uint32)
        del numbers
        keep, initial = _decide(operations, slots, sizes, len(objects))
        self.left_out[DELETED_BEFORE] += len(keep) - int(np.count_nonzero(keep))
        if not with_sets:
            sets = _mask(operations, lambda row: row.target is Target.OBJECTS)
            self.left_out[NO_NAMES] += int(np.count_nonzero(sets))
            keep &= ~sets
        self.left_out = +self.left_out
        found = Requests(at, operations, slots, sizes, moved, objects, initial)
        return found if keep.all() else found.chosen(keep)


class Requests(Struct):
    """Requests in the order of time; row i of each array is one."""

    at_ns: Ints  #: Unix time
    operations: npt.NDArray[np.uint16]
    slots: npt.NDArray[np.uint32]  #: index into ``objects``
    sizes: Ints  #: of the object, after an upload and before any other operation; never unknown
    moved: Ints  #: bytes of content that were sent; UNKNOWN
    objects: Ints  #: number of each object; of an operation on a container that of the container
    initial: Ints  #: size of each object that the log uses before it uploads it; UNKNOWN: of others

    def __len__(self) -> int:
        return len(self.at_ns)

    def chosen(self, keep: npt.NDArray[np.bool_]) -> Requests:
        """These rows."""
        return Requests(
            self.at_ns[keep], self.operations[keep], self.slots[keep], self.sizes[keep],
            self.moved[keep], self.objects, self.initial,
        )  # fmt: skip

    def without_larger(self, most: int) -> Requests:
        """Without the requests for contents of more bytes than this."""
        if not len(self) or self.sizes.max() <= most:
            return self
        left = self.chosen(self.sizes <= most)
        left.initial = np.where(self.initial > most, UNKNOWN, self.initial)
        return left

    @property
    def prepared(self) -> int:
        """How many objects must exist before the first request."""
        return int((self.initial != UNKNOWN).sum())

    @property
    def seconds(self) -> float:
        """From the first to the last request, a second at least."""
        return max((int(self.at_ns[-1]) - int(self.at_ns[0])) / SECOND_NS, 1.0)

    @property
    def counts(self) -> dict[int, int]:
        """Operation -> requests."""
        found, counts = np.unique(self.operations, return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))

    def most_within(self, nanoseconds: int) -> int:
        """Most requests that begin within such a time."""
        ends = np.searchsorted(self.at_ns, self.at_ns + nanoseconds)
        ends -= np.arange(len(ends))
        return int(ends.max())

    @property
    def without_object(self) -> dict[int, int]:
        """Operation -> requests, of those on a container or a set of objects."""
        return {each: n for each, n in self.counts.items() if _has_no_object(row_of(each))}

    def of_sizes(self, low: int, high: int) -> Requests | None:
        """Requests for objects of these sizes, ``high`` excluded; None if there are none."""
        keep = (self.sizes >= low) & (self.sizes < high) & ~_mask(self.operations, _has_no_object)
        return self.chosen(keep) if keep.any() else None

    def size_counts(self) -> Iterator[tuple[int, int]]:
        """Each size of objects, and how many requests it has."""
        sizes, counts = np.unique(self.sizes, return_counts=True)
        return zip(sizes.tolist(), counts.tolist(), strict=True)

    def mean_moved(self, operation: int) -> int:
        """Bytes of content that a request of this operation sent, on average; 0: not known."""
        moved = self.moved[(self.operations == operation) & (self.moved > 0)]
        return int(moved.mean()) if len(moved) else 0

    def zipf_exponent(self) -> float | None:
        """The exponent of Zipf's law by which objects are used; None if that is not well measured:
        objects have too few uses, use is near to uniform, or is distributed otherwise.
        """
        is_use = _mask(
            self.operations, lambda row: row.effect is Effect.NONE and not _has_no_object(row)
        )
        uses = np.sort(np.bincount(self.slots[is_use]))[::-1]
        uses = uses[uses > 0]
        total = int(uses.sum())
        if len(uses) < _LEAST_OBJECTS or total < _LEAST_USES * len(uses):
            return None
        logs = np.log(np.arange(1, len(uses) + 1))
        mean = float(uses @ logs) / total
        low, high = 0.0, _MOST_EXPONENT
        for _ in range(40):  # the likeliest exponent gives ranks the logarithm that they have
            middle = (low + high) / 2
            weights = np.exp(-middle * logs)
            low, high = (middle, high) if weights @ logs / weights.sum() > mean else (low, middle)
        weights = np.exp(-low * logs)
        distance = np.abs(np.cumsum(weights) / weights.sum() - np.cumsum(uses) / total).max()
        return low if low >= _LEAST_EXPONENT and distance <= _MOST_DISTANCE else None


def _spread(at: Ints) -> Ints:
    """Spread the requests of each whole second evenly over it; the times are sorted."""
    whole = at % SECOND_NS == 0
    if not whole.any():
        return at
    begins = np.flatnonzero(np.r_[True, at[1:] != at[:-1]])  # of requests of the same time
    counts = np.diff(np.r_[begins, len(at)])
    place = np.arange(len(at), dtype=np.int32) - np.repeat(begins.astype(np.int32), counts)
    steps = np.where(whole[begins], SECOND_NS // counts, 0)
    at += np.repeat(steps, counts) * place
    return np.maximum.accumulate(at, out=at)


def _decide(
    operations: npt.NDArray[np.uint16], slots: npt.NDArray[np.uint32], sizes: Ints, count: int
) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Decide in place which uploads replace their object, and the size of the object for each
    request.

    :return: which requests find their object, and the initial size of each object.
    """
    makes = _mask(
        operations, lambda row: row.effect is Effect.CREATES and row.target is not Target.PAIR
    )
    removes = _mask(operations, lambda row: row.effect is Effect.REMOVES)
    order = np.argsort(slots, kind="stable").astype(np.uint32)  # by object, then by time
    slot = slots[order]
    begins = np.flatnonzero(np.r_[True, slot[1:] != slot[:-1]]).astype(np.int32)
    # Of its object, for each request.
    first = np.repeat(begins, np.diff(begins, append=np.int32(len(slot))))
    at = np.arange(len(slot), dtype=np.int32)
    making = makes[order]
    # The last request before this one that made or removed the object.
    changing = np.where(making | removes[order], at, np.int32(-1))
    last = np.r_[np.int32(-1), np.maximum.accumulate(changing)[:-1]]
    del changing
    is_there = np.where(last >= first, making[last], ~making[first])
    rows = order[making & is_there]
    for created, *replaced in LOGGED.values():
        if replaced:
            operations[rows[operations[rows] == created]] = replaced[0]

    # A new content begins with each upload; its size is the largest that the log shows of it.
    contents = np.flatnonzero(making | (at == first))
    del first, last
    known = np.maximum.reduceat(sizes[order], contents)
    unknown = known == UNKNOWN
    if unknown.any():
        some = known[~unknown]
        known[unknown] = int(np.median(some)) if len(some) else 0
    sizes[order] = np.repeat(known, np.diff(np.r_[contents, len(at)]))

    no_object = _mask(operations, _has_no_object)
    keep = no_object.copy()
    keep[order] |= making | is_there
    sizes[no_object] = 0
    initial = np.full(count, UNKNOWN, np.int64)
    from_start = ~making[begins] & ~no_object[order[begins]]
    initial[slot[begins][from_start]] = sizes[order[begins]][from_start]
    return keep, initial


def _mask(
    operations: npt.NDArray[np.uint16], wanted: Callable[[Operation], bool]
) -> npt.NDArray[np.bool_]:
    """Whether each operation's row is one of those wanted."""
    rows = {row for rows in LOGGED.values() for row in rows}
    return np.isin(operations, [int(row) for row in rows if wanted(row)])


def _has_no_object(row: Operation) -> bool:
    return row.target in (Target.CONTAINER, Target.OBJECTS)
