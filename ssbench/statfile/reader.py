"""Read a run's stat file, which may be damaged, or one of ssbench 0.3.9."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO

from ssbench.core.errors import MessageError, NoStatFileError, StatFileError, UsageError
from ssbench.core.records import Damage, Record, ResultBatch, RunFooter, RunHeader
from ssbench.host.files import open_file
from ssbench.statfile.format import (
    ARRAY_MARKS,
    MAP_MARKS,
    Bounds,
    Decoder,
    Source,
    TooMuchError,
    UnknownRecordError,
    is_results,
    looks_like_blocks,
    objects,
    read_blocks,
    read_plain,
)

PACKED = ".gz"
_LEAST_PIECE = 4096  #: minimum bytes that a piece counts as: empty ones take time, too


def read(
    path_or_file: str | os.PathLike[str] | BinaryIO,
    *,
    tail_bytes: int | None = None,
) -> StatFileReader:
    """Open a stat file, ours or one of ssbench 0.3.9; ``-`` is stdin.

    ``a.stat`` also finds ``a.stat.gz``, and the other way round. A file that unfolds to far more
    than a run writes is read up to there, with a line in ``damage``.

    :param tail_bytes: read only the blocks that begin in this many bytes at the end of the file.
    :raises NoStatFileError: in one line, if it can't be opened, or is a device or the like.
    :raises StatFileError: in one line, if it can't be read or is no stat file.
    """
    if not isinstance(path_or_file, str | os.PathLike):
        name = str(getattr(path_or_file, "name", "stat file"))
        return StatFileReader(path_or_file, name)
    if path_or_file == "-":
        return StatFileReader(sys.stdin.buffer, "stdin")
    path = existing_path(os.fspath(path_or_file))
    try:
        file = open_file(path)
    except UsageError as error:
        raise NoStatFileError(str(error)) from error
    try:
        if tail_bytes is not None:
            file.seek(max(os.fstat(file.fileno()).st_size - tail_bytes, 0))
        reader = StatFileReader(file, path, owned=True)
    except BaseException:
        file.close()
        raise
    if not path.endswith(PACKED) and os.path.isfile(path + PACKED):
        reader.notes.append(f"there is {path}{PACKED} as well, which was not read")
    return reader


def existing_path(path: str) -> str:
    """The file to read if the user names this one: with or without ``.gz``, as it exists.

    The very name comes first; it is also the result if neither exists.
    """
    if path == "-" or os.path.lexists(path):
        return path
    other = path[: -len(PACKED)] if path.lower().endswith(PACKED) else path + PACKED
    return other if os.path.isfile(other) else path


class StatFileReader:
    """Iterates over a run's records, once, in the order of the file.

    ``damage`` and ``notes`` grow during the iteration and are complete at its end.
    """

    def __init__(self, file: BinaryIO, name: str, *, owned: bool = False) -> None:
        """Use ``read``."""
        self._file = file if owned else None
        self.name = name
        self.damage = Damage()  #: what is missing or damaged, a line each
        self.notes: list[str] = []  #: other remarks for the reader of a report, a line each
        self.unknown_records = 0  #: number of records of types that this version doesn't know
        self._footer = False
        self._decoder = Decoder()
        self._skip_results = False
        self._source = source = Source(file)
        self._bounds = Bounds(source)
        with self._named_errors():
            records = self._until_footer(self._open(source))
            first = next(records, None)
            if first is None:
                raise StatFileError("; ".join(["nothing of a run is in it", *self.damage[:1]]))
        self._records = chain([first], records)

    @property
    def complete(self) -> bool:
        """True once the footer was read and nothing is damaged."""
        return self._footer and not self.damage

    @property
    def bytes_read(self) -> int:
        """How far the file was read."""
        return self._source.offset

    def __iter__(self) -> Iterator[Record]:
        with self._named_errors():
            yield from self._records

    def without_results(self) -> Iterator[Record]:
        """Iterate without the results, which are not unpacked."""
        self._skip_results = True
        return (record for record in self if not isinstance(record, ResultBatch))

    def close(self) -> None:
        """Close the file, if ``read`` opened it."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> StatFileReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "complete" if self.complete else f"{len(self.damage)} faults so far"
        return f"<StatFileReader {self.name} {state}>"

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except StatFileError as error:
            raise StatFileError(f"{self.name}: {error}") from error
        except OSError as error:
            raise StatFileError(f"{self.name}: can't be read: {error.strerror}") from error

    def _open(self, source: Source) -> Iterator[Record]:
        if looks_like_blocks(source):
            blocks = read_blocks(source, self.damage.note, self._bounds.count_bytes)
            each = (objects([block.data], self.damage.note) for block in blocks)
            return self._decoded(chain.from_iterable(each))
        inflated = self._inflated(read_plain(source, self.damage.note))
        first = next((piece for piece in inflated if piece), b"")
        pieces = chain([first], inflated)
        if first[:1] in MAP_MARKS:
            from ssbench.statfile.legacy import LegacyRun

            items = objects(pieces, self.damage.note, raw=True)
            return LegacyRun(map(self._bounds.counted, items), self.damage, self.notes).records()
        if first[:1] in ARRAY_MARKS:  # blocks that were recompressed into one
            return self._decoded(objects(pieces, self.damage.note))
        raise StatFileError("it is gzip, but no stat file")

    def _until_footer(self, records: Iterator[Record]) -> Iterator[Record]:
        """The records, up to the bounds; notes whether the footer is among them."""
        try:
            for record in records:
                if isinstance(record, RunFooter):
                    self._footer = True
                yield record
            if not self._footer:
                self.damage.note("there is no footer: the run was cut off, or is still going on")
        except TooMuchError as error:
            self.damage.append(str(error))  # also as line 101

    def _inflated(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._bounds.count_bytes(max(len(piece), _LEAST_PIECE))
            yield piece

    def _decoded(self, items: Iterator[Any]) -> Iterator[Record]:
        """The records of one run; of its header, of which the file has two copies, one."""
        header, decode, bounds = None, self._decoder.decode, self._bounds
        for item in map(bounds.counted, items):
            if self._skip_results and is_results(item):
                continue
            try:
                record = decode(item)
            except UnknownRecordError:
                self.unknown_records += 1
                continue
            except MessageError as error:
                self.damage.note(f"a record is malformed: {error}")
                continue
            if isinstance(record, ResultBatch):
                bounds.count_items(record.count)
            elif isinstance(record, RunHeader):
                if header is not None:
                    if record.run_id == header.run_id:
                        continue
                    self.damage.note(
                        f"a second run begins, {record.run_id}: only the first is read"
                    )
                    break
                header = record
            if record is not None:
                yield record
        if header is None:
            self.damage.note("the run's header is lost")
