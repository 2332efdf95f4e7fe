"""Write a run's stat file, block by block."""

from __future__ import annotations

import os
from contextlib import suppress

from ssbench.core.columns import RESULT_COLUMNS, Schema
from ssbench.core.errors import StatFileError
from ssbench.core.model import Phase
from ssbench.core.records import Record, ResultBatch, RunFooter, RunHeader
from ssbench.statfile.blocks import BlockBuilder
from ssbench.statfile.path import ResultFile, not_written, open_results, remove
from ssbench.statfile.records import encode, encode_results, encode_schema

BLOCK_BYTES = 1 << 20  #: of records; a block is written when it has them, or once a second
BLOCK_SECONDS = 1.0
#: With fewer bytes per second, there is time for better compression.
_SLOW_SECOND = 1 << 18


class StatFileWriter:
    """Appends a run's records to a new file, which always ends in a complete block.

    Not thread-safe. After an error nothing more is written; earlier blocks stay readable.
    """

    def __init__(self, file: ResultFile, path: str) -> None:
        """Use ``create``."""
        self._file, self._new, self.readable = file
        self._closed = False
        self._error = ""  # why writing failed
        self.path = path
        self.blocks = 0  #: written so far
        self.bytes_written = 0
        self._small = False  # whether there is time for better compression
        self._added = 0  # bytes of records since the last second began
        self._builder = BlockBuilder(small=self._small)
        self._due_s: float | None = None
        self._held: list[Record] | None = None  # until ``release``
        self._schemas: dict[Schema, int] = {}  # numbers of all, in the file
        self._named: set[int] = set()  # those that stand in the present block

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], *, overwrite: bool = False, hold: bool = False
    ) -> StatFileWriter:
        """Open a file for a run, readable by its owner only. Devices and pipes are written to.

        :param hold: keep records in memory until ``release``. Closed before that, the file is as
            if there had been no run: gone, or the older one.
        :param overwrite: replace an empty file or a stat file of the same user, once there is
            something to write; any other existing file is refused.
        :raises UsageError: if there is a file of that name, or a link.
        :raises StatFileError: path and cause, in one line.
        """
        name = os.fspath(path)
        writer = cls(open_results(name, overwrite=overwrite), name)
        if hold:
            writer._held = []
        return writer

    def write(self, record: Record) -> None:
        """Append a record. The header, and the footer, are on disk when this returns, but for
        those that are held.

        :raises MessageError: if it has a value that can't be written; all else goes on.
        :raises StatFileError: path, cause and what was kept.
        """
        if self._held is not None:
            self._held.append(record)
            return
        if isinstance(record, ResultBatch):
            schema = tuple((name, RESULT_COLUMNS[name].kind) for name in record.names)
            self.append_results(record.phase, record.worker, schema, record.packed)
            return
        data = encode(record)
        self._add(data)
        if isinstance(record, RunHeader):
            # Twice, in a block each: without a header all other blocks would be useless.
            self.flush()
            self._add(data)
            self.flush()
        elif isinstance(record, RunFooter):
            self.flush()

    @property
    def failed(self) -> bool:
        """Whether an error has cut the file off."""
        return bool(self._error)

    @property
    def held(self) -> bool:
        """Whether nothing is written before ``release``."""
        return self._held is not None

    def release(self) -> None:
        """Write what was held, and from now on all that comes; a second time does nothing.

        :raises StatFileError: path, cause and what was kept; on every call after the first
            failure, so that each greenlet about to change the store stops.
        """
        if self._error:
            raise StatFileError(self._error)
        held, self._held = self._held, None
        for record in held or ():
            self.write(record)

    def append_results(self, phase: Phase, worker: int, schema: Schema, packed: bytes) -> None:
        """Append a batch as it came off the wire: msgpack of ``core.columns.pack_results``.

        :param schema: names and kinds of its columns.
        :raises StatFileError: path, cause and what was kept.
        """
        number = self._schemas.setdefault(schema, len(self._schemas))
        data = encode_results(phase, worker, number, packed)
        if number not in self._named:
            self._named.add(number)
            data = encode_schema(number, schema) + data
        self._add(data)

    def tick(self, now_s: float) -> None:
        """Call regularly with a monotonic time; flushes once a second.

        :raises StatFileError: path, cause and what was kept.
        """
        if self._due_s is None:
            self._due_s = now_s + BLOCK_SECONDS
        elif now_s >= self._due_s:
            self._due_s = now_s + BLOCK_SECONDS
            self._small = self._added < _SLOW_SECOND
            self._added = 0
            self.flush()

    def flush(self) -> None:
        """Write all appended records to the operating system.

        :raises StatFileError: path, cause and what was kept.
        """
        if not self._builder.size or self._closed:
            return
        member = self._builder.finish(self.blocks)
        try:
            if not self.blocks and self.readable:
                # Not before: a run that fails early must not destroy an older run's file.
                os.ftruncate(self._file, 0)
            _write_all(self._file, member)
        except OSError as error:
            self._give_up()
            self._error = not_written(self.path, error, f"; {self._what_is_kept()}")
            raise StatFileError(self._error) from error
        self.blocks += 1
        self.bytes_written += len(member)
        self._builder = BlockBuilder(small=self._small)
        self._named.clear()

    def close(self) -> None:
        """Write the rest and close; repeated calls do nothing. Removes a new, empty file.

        :raises StatFileError: path, cause and what was kept.
        """
        if self._closed:
            return
        self.flush()
        self._closed = True
        self._remove_if_empty()
        try:
            os.close(self._file)
        except OSError as error:  # network file systems may report a full disk only now
            raise StatFileError(f"{self.path}: the end may be lost: {error.strerror}") from error

    def _add(self, data: bytes) -> None:
        if self._closed:
            raise StatFileError(f"{self.path}: is closed; nothing more is written")
        self._builder.add(data)
        self._added += len(data)
        if self._builder.size >= BLOCK_BYTES:
            self.flush()

    def _what_is_kept(self) -> str:
        if not (self.blocks and self.readable):
            return "nothing was kept"
        return (
            f"the first {self.bytes_written} bytes ({self.blocks} blocks) are kept and can be read"
        )

    def _remove_if_empty(self) -> None:
        if self._new and not self.blocks:
            remove(self.path)

    def _give_up(self) -> None:
        """Truncate a partly written block and close."""
        self._closed = True
        self._remove_if_empty()
        with suppress(OSError):  # readers skip the partial block at the end
            os.ftruncate(self._file, self.bytes_written)
        with suppress(OSError):  # of a network file system: the first error is reported
            os.close(self._file)

    def __enter__(self) -> StatFileWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<StatFileWriter {self.path} {state}, {self.blocks} blocks>"


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
