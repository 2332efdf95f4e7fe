"""Write a run's stat file: where it may be, and then block by block."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from ssbench.core.columns import RESULT_COLUMNS, Schema
from ssbench.core.errors import StatFileError, UsageError
from ssbench.core.model import Phase
from ssbench.core.records import Record, ResultBatch, RunFooter, RunHeader
from ssbench.host.files import Place, lock, open_found, private_folder
from ssbench.statfile.format import (
    BlockBuilder,
    begins_a_block,
    encode_record,
    encode_results,
    encode_schema,
)
from ssbench.statfile.reader import StatFileReader

_ELSEWHERE = "name another place with -s"
_HINTS = {
    errno.ENOSPC: f"; free space, or {_ELSEWHERE}",
    errno.EDQUOT: f"; free space, or {_ELSEWHERE}",
    errno.ENOENT: f"; make the folder, or {_ELSEWHERE}",
    **dict.fromkeys((errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EISDIR), f"; {_ELSEWHERE}"),
}
_LOOK = 1 << 20  #: bytes of an existing file that show whether it is a stat file
_NAME_LIMIT = 120  #: characters of the scenario's name; file names have at most 255 bytes


class _ResultFile(NamedTuple):
    """An open file that results can be written to."""

    descriptor: int
    is_new: bool  #: there was no such file before
    readable: bool  #: it can be read again: False for /dev/null or a pipe
    place: Place

    def remove_new(self) -> None:
        """Remove it if it is new; nothing is in it."""
        if self.is_new:
            self.place.remove(self.descriptor)

    def close(self) -> None:
        self.place.close()
        if self.descriptor >= 0:
            os.close(self.descriptor)


def default_path(
    scenario_name: str,
    users: int,
    operations: int | None,
    run_seconds: float | None,
    now: datetime,
    *,
    results_dir: str | None = None,
    parent: Path = Path("/tmp"),  # nosec B108 # a private folder is made there
) -> Path:
    """A path for a new stat file: ``<parent>/ssbench-results/NAME.u4.o613.r-.DATE.stat.gz``.

    No such file exists yet. The folder is made if it is missing; only we can read it. If
    ``ssbench-results`` is another user's, it is ``ssbench-results-<our uid>``.

    :param results_dir: the folder instead; it is made if only it is missing.
    :raises StatFileError: if there can be no folder.
    :raises UsageError: if there can be none at ``results_dir``, or no file in it.
    """
    if results_dir is None:
        folder = private_folder(parent, "name a stat file with -s")
    else:
        try:
            folder = Path(results_dir).expanduser()
        except RuntimeError as error:
            raise UsageError(f"--results-dir {results_dir}: there is no such home") from error
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            cause = "no folder" if isinstance(error, FileExistsError) else error.strerror
            raise UsageError(f"--results-dir {folder}: can't be used: {cause}") from error
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", scenario_name)[:_NAME_LIMIT]
    name = re.sub(r"^\.", "_", name) or "_"
    seconds = "-" if run_seconds is None else f"{run_seconds:g}"
    count = "-" if operations is None else str(operations)
    stem = f"{name}.u{users}.o{count}.r{seconds}.{now:%Y-%m-%d.%H%M%S}"
    path = folder / f"{stem}.stat.gz"
    again = 1
    while os.path.lexists(path):  # a second run of the same second
        again += 1
        path = folder / f"{stem}.{again}.stat.gz"
    if results_dir is not None:
        check_new(str(path), overwrite=False)
    return path


def _open_file(path: str, *, overwrite: bool, sinks: bool = True) -> _ResultFile:
    """Open a file for results, readable by its owner only. Devices and pipes are written to.

    :param overwrite: also replace an empty file or a stat file of the same user; any other existing
        file is refused.
    :param sinks: False: a device or pipe is not opened (-1): closing a pipe would end its reader.
    :raises UsageError: if there is a file of that name, or a link.
    :raises StatFileError: path and cause, in one line.
    """
    try:
        place = Place(path)
    except OSError as error:
        raise StatFileError(_not_written(path, error)) from error
    try:
        return _open_in(place, path, overwrite=overwrite, sinks=sinks)
    except BaseException:
        place.close()
        raise


def _open_in(place: Place, path: str, *, overwrite: bool, sinks: bool) -> _ResultFile:
    try:
        return _ResultFile(_open_new(place), True, True, place)
    except FileExistsError:
        pass
    except OSError as error:
        raise StatFileError(_not_written(path, error)) from error
    with _found(place, path) as found:
        mode = os.fstat(found).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):  # with nothing in it to be lost
            return _ResultFile(_open_sink(found, path) if sinks else -1, False, False, place)
        if stat.S_ISREG(mode) and not overwrite:
            raise UsageError(f"{path}: is there already; --force overwrites it")
        return _ResultFile(_open_again(found, path), False, True, place)


def check_new(path: str, *, overwrite: bool) -> None:
    """Check that a file can be written there, and leave everything as it is.

    :raises UsageError: it can't.
    """
    try:
        opened = _open_file(path, overwrite=overwrite, sinks=False)
        opened.remove_new()
        opened.close()
    except StatFileError as error:
        raise UsageError(str(error)) from error
    except OSError as error:  # network file systems may report one at the close
        raise UsageError(_not_written(path, error)) from error


def is_being_written(path: str | os.PathLike[str]) -> bool:
    """Whether a run is writing to this file, according to its lock."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # opening it for reading reports the error
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # some network file systems have no locks
        return False
    finally:
        os.close(file)
    return False


def _not_written(path: str, error: OSError, kept: str = "") -> str:
    """Why a file can't be written; ``kept`` says what there is of it."""
    hint = _HINTS.get(error.errno or 0, "")
    return f"{path}: can't be written: {error.strerror}{kept}{hint}"


def _open_new(place: Place) -> int:
    file = place.open(os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    lock(file)
    return file


@contextmanager
def _found(place: Place, path: str) -> Iterator[int]:
    """What is there (O_PATH).

    :raises UsageError: for a link, whose owner could choose where we write; or another user may
        have placed it there, as a FIFO of theirs, who would read the results.
    :raises StatFileError: it is gone again.
    """
    try:
        found = place.open(os.O_PATH)
    except OSError as error:
        raise StatFileError(_not_written(path, error)) from error
    try:
        facts = os.fstat(found)
        if stat.S_ISLNK(facts.st_mode):
            raise UsageError(f"{path}: is a link, which isn't followed; name the file itself")
        if why := place.why_placed(facts):
            raise UsageError(f"{path}: can't be written: {why}; {_ELSEWHERE}")
        yield found
    finally:
        os.close(found)


def _open_sink(found: int, path: str) -> int:
    # NONBLOCK: a pipe without a reader fails at once.
    try:
        file = open_found(found, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise StatFileError(_not_written(path, error)) from error
    os.set_blocking(file, True)
    return file


def _open_again(found: int, path: str) -> int:
    """Open an existing file, only if it is ours, and empty or a stat file."""
    try:
        file = open_found(found, os.O_RDWR | os.O_NONBLOCK)
    except OSError as error:
        raise StatFileError(
            f"{path}: can't be overwritten: {error.strerror}; {_ELSEWHERE}"
        ) from error
    try:
        fault = _why_not_replace(file)
        if fault is None:
            os.fchmod(file, 0o600)
    except OSError as error:
        fault = error.strerror or "unknown error"
    if fault is not None:
        os.close(file)
        raise StatFileError(f"{path}: isn't overwritten: {fault}")
    return file


def _why_not_replace(file: int) -> str | None:
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        return "it is no regular file"
    if facts.st_uid != os.geteuid():
        return "it belongs to another user"
    if not lock(file):
        return "another run is writing to it"
    start = os.pread(file, _LOOK, 0)
    if not start or begins_a_block(start):
        return None
    try:
        StatFileReader(BytesIO(start), "")
    except StatFileError:
        return "it is no stat file"
    return None


BLOCK_BYTES = 1 << 20  #: of records; a block is written when it has them, or once a second
BLOCK_SECONDS = 1.0
#: With fewer bytes per second, there is time for better compression.
_SLOW_SECOND = 1 << 18


class StatFileWriter:
    """Appends a run's records to a new file, which always ends in a complete block.

    Not thread-safe. After an error nothing more is written; earlier blocks stay readable.
    """

    def __init__(self, file: _ResultFile, path: str) -> None:
        """Use ``create``."""
        self._opened, self._file, self.readable = file, file.descriptor, file.readable
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
        writer = cls(_open_file(name, overwrite=overwrite), name)
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
        data = encode_record(record)
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
            self._error = _not_written(self.path, error, f"; {self._what_is_kept()}")
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
            self._opened.close()
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
        if not self.blocks:
            self._opened.remove_new()

    def _give_up(self) -> None:
        """Truncate a partly written block and close."""
        self._closed = True
        self._remove_if_empty()
        with suppress(OSError):  # readers skip the partial block at the end
            os.ftruncate(self._file, self.bytes_written)
        with suppress(OSError):  # of a network file system: the first error is reported
            self._opened.close()

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
