"""``bench files``, ``gen-files`` and ``diff-dirs``.

The files are ``file_0.txt`` and so on. The measurements are runs of the ``file`` store on them, one
for each pass over all files.
"""

import argparse
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ssbench.cli.config import values_of
from ssbench.cli.console import say, tell
from ssbench.commands.base import watched
from ssbench.commands.files.settings import FilesConfig
from ssbench.core.content import SyntheticSource
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.core.live import Observer
from ssbench.core.model import SizeClass
from ssbench.core.operations import CREATE, READ
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import bytes_text, in_unit, plural, printable
from ssbench.core.workload.workload import NumberedWorkload
from ssbench.host.files import Place, open_file
from ssbench.live.terminal import make_progress
from ssbench.runner import execute, open_session
from ssbench.runner.config import FREE_PORTS, RunConfig, RunPlan, ScenarioText
from ssbench.runner.stop import Stop
from ssbench.storage.directory import FileContents
from ssbench.storage.filetree import MARKER
from ssbench.storage.options import StoreOptions

if TYPE_CHECKING:
    from ssbench.runner.session import Session
    from ssbench.runner.single_run import RunResult


_WIDTH = 12  #: of a column
_READ_BUFFER, _BUFFER = 8 << 10, 4 << 20  #: as in the tables that this command is modelled on


def gen_files(ns: argparse.Namespace) -> ExitStatus:
    with make_progress(quiet=ns.quiet) as progress:
        generate(ns.folder, ns.count, ns.total, progress.wait_for)
        progress.wait_for("")
    say(f"{printable(ns.folder)}: {plural(ns.count, 'file')}, {_size(ns.total)}")
    return ExitStatus.OK


def diff_dirs(ns: argparse.Namespace) -> ExitStatus:
    """Compare two folders; FAILED if they differ."""
    with make_progress(quiet=ns.quiet) as progress:
        found = first_difference(ns.first, ns.second, progress.wait_for)
        progress.wait_for("")
    if found:
        say(found)
    return ExitStatus.FAILED if found else ExitStatus.OK


def bench_files(ns: argparse.Namespace) -> ExitStatus:
    """Measure, and print a row for each step; FAILED if operations failed.

    :raises SsbenchError: what ended it.
    """
    config = _config(ns)
    has_head = has_failed = False
    step = None
    shown = make_progress(quiet=ns.quiet, brief=True)
    with watched(ns, display=shown) as (progress, stop):
        for step in measure(config, [progress], stop):
            cells = _cells(config, step)
            if not has_head:
                say(_line(cells))
                say(_line(["-"] * len(cells)))
            has_head = True
            say(_line(cells.values()))
            if step.failed:
                has_failed = True
                tell(f"WARNING: {plural(step.failed, 'operation')} failed: {step.example}")
    if step and not step.failed:
        say(f"Disk usage (du): {_size(step.disk_bytes)} for {_size(step.bytes)} of content.")
    return ExitStatus.FAILED if has_failed else ExitStatus.OK


def _config(ns: argparse.Namespace) -> FilesConfig:
    swept: dict[str, Any] = {}
    for what, values in ns.sweeps or ():
        swept.setdefault(what, []).extend(values)
    if ns.target and ns.method == "read":
        raise UsageError("--to: read writes nothing")
    store = {
        "io_buffer": ns.io_buffer or (_READ_BUFFER if ns.method == "read" else _BUFFER),
        "page_cache": ns.page_cache,
        **{name: True for name in ("fsync", "direct") if getattr(ns, name)},
    }
    return FilesConfig(**values_of(FilesConfig, ns), store=store, **swept)


def _cells(config: FilesConfig, step: "FilesStep") -> dict[str, str]:
    """A row of the table: title -> value. Columns are those of the earlier benchmark's tables."""
    cells = {"users": str(step.users)}
    if config.method != "write":
        cells["buffer"] = _size(int(str(config.store["io_buffer"])))
    if config.method == "copy":
        cells["queue"] = str(config.queue or "auto")
    cells["files"] = str(step.files)
    if step.failed:
        return {**cells, "total size": "-", "cost": "failed", "speed": "-"}
    return {
        **cells,
        "total size": _size(step.bytes),
        "cost": f"{step.seconds:.2f}s",
        "speed": f"{step.bytes_per_s / 2**20:.0f} MiB/s",
    }


def _line(cells: Iterable[str]) -> str:
    return f"|{'|'.join(f'{cell:>{_WIDTH}}' for cell in cells)}|"


def _size(count: int) -> str:
    """``5 GiB``, ``1.5 MiB``: powers of 1,024."""
    size, unit = in_unit(count, 1024)
    return f"{size:.4g} {unit}"


_PREFIX, _SUFFIX = "file_", ".txt"
_PIECE = 1 << 20  #: bytes of a comparison, and of a write
_DELETED = 1000  #: names deleted at once


def generate(
    folder: str, file_count: int, total: int, show: Callable[[str], None] = lambda text: None
) -> None:
    """Make a folder of files with pseudo-random content, all of the same size, or one byte more.

    :param total: bytes of all files.
    :param show: called with what is done, often.
    :raises UsageError: there is something in the folder.
    :raises SsbenchError: it can't be written, or is a link of another user.
    """
    path = Path(folder)
    source = SyntheticSource(_PIECE)
    least, longer = divmod(total, file_count)
    written = 0
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(f"{printable(folder)}: is not empty; name a new folder")
        for number in range(file_count):
            name = _name(number)
            place = Place(str(path / name))
            try:
                created = place.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            finally:
                place.close()
            with open(created, "wb") as file:
                for piece in source.pieces(name.encode(), 0, least + (number < longer)):
                    file.write(piece)
                    written += len(piece)
                    done = f"{bytes_text(written)} of {bytes_text(total)}"
                    show(f"Writing: {number:,} of {plural(file_count, 'file')}, {done}")
    except OSError as error:
        raise SsbenchError(
            f"{printable(str(error.filename or folder))}: {error.strerror}"
        ) from error


def first_difference(
    first: str, second: str, show: Callable[[str], None] = lambda text: None
) -> str:
    """Where two trees of files differ first, in the order of names; "": nowhere.

    Links are compared by what they say, and not followed. The mark of ssbench is left out.

    :param show: called with what is compared, often.
    :raises SsbenchError: something can't be read.
    """
    try:
        return _difference(Path(first), Path(second), show)
    except OSError as error:
        raise SsbenchError(f"{printable(str(error.filename))}: {error.strerror}") from error


def _difference(first: Path, second: Path, show: Callable[[str], None]) -> str:
    # No recursion: other programs can make folders of any depth.
    levels: list[Iterator[tuple[Path, Path] | str]] = [iter([(first, second)])]
    while levels:
        found = next(levels[-1], None)
        if found is None:
            levels.pop()
            continue
        if isinstance(found, str):
            return found
        first, second = found
        kinds = [stat.S_IFMT(path.lstat().st_mode) for path in found]
        shown = printable(str(first))
        if kinds[0] != kinds[1]:
            return f"{shown} and {printable(str(second))} are of different kinds"
        if kinds[0] == stat.S_IFDIR:
            levels.append(_pairs(first, second))
        elif kinds[0] == stat.S_IFLNK:
            if os.readlink(first) != os.readlink(second):
                return f"{shown} and {printable(str(second))} are links to different places"
        elif kinds[0] == stat.S_IFREG:
            at = _first_different_byte(first, second, show)
            if at is not None:
                return f"{shown} and {printable(str(second))} differ from byte offset {at} on"
    return ""


def _pairs(first: Path, second: Path) -> Iterator[tuple[Path, Path] | str]:
    """What is in both folders, in the order of names, up to what is only in one, as text."""
    names = [{each.name for each in path.iterdir()} - {MARKER} for path in (first, second)]
    for name in sorted(names[0] | names[1]):
        if name not in names[0] or name not in names[1]:
            there = printable(str(first if name in names[0] else second))
            yield f"only in {there}: {printable(name)}"
            return
        yield first / name, second / name


def _first_different_byte(first: Path, second: Path, show: Callable[[str], None]) -> int | None:
    with open_file(first) as one, open_file(second) as other:
        for piece in count():
            show(f"Comparing {printable(str(first))}: {bytes_text(piece * _PIECE)}")
            read, expected = one.read(_PIECE), other.read(_PIECE)
            if read != expected:
                alike = zip(read, expected, strict=False)
                same = next((at for at, (a, b) in enumerate(alike) if a != b), None)
                return piece * _PIECE + (min(len(read), len(expected)) if same is None else same)
            if not read:
                break
    return None


class FilesStep(Struct, frozen=True):
    """What one step measured."""

    users: int
    files: int
    bytes: int  #: of all files
    disk_bytes: int  #: that they take, as du counts
    seconds: float  #: of a pass, on average
    passes: int
    failed: int  #: operations
    example: str = ""  #: detail of an error

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds if self.seconds else 0.0


def measure(
    config: FilesConfig, observers: Sequence[Observer] = (), stop: Stop | None = None
) -> Iterator[FilesStep]:
    """Run the series; yields each step when it has ended.

    :raises UsageError: a folder can't be used.
    :raises SsbenchError, KeyboardInterrupt: as ``runner.run``.
    """
    yield from _Measurement(config, stop or Stop()).run(observers)


class _Measurement:
    def __init__(self, config: FilesConfig, stop: Stop) -> None:
        self.config, self.stop = config, stop
        self.source = Path(config.folder).absolute()
        self.writes = config.method != "read"
        self.target = self.source
        if self.writes:
            self.target = Path(config.target or f"{self.source}.ssbench").absolute()
            try:
                exists = self.target.exists()
                there = {each.name for each in self.target.iterdir()} if exists else set()
            except OSError as error:
                raise UsageError(f"{printable(str(self.target))}: {error.strerror}") from error
            if there and MARKER not in there:
                raise UsageError(
                    f"{printable(str(self.target))}: is not empty, and ssbench did not make it;"
                    " name a new folder with --to"
                )
        self.sizes, self.newest_ns = _listed(self.source)
        for wanted in config.files:
            if wanted > len(self.sizes):
                raise UsageError(
                    f"--sweep files={wanted}: {printable(config.folder)} has {len(self.sizes)}"
                )

    def run(self, observers: Sequence[Observer]) -> Iterator[FilesStep]:
        config, most = self.config, max(self.config.users)
        with ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="ssbench-files-"))
            run = RunConfig(
                scenario=ScenarioText(b"", "bench files"),
                store=StoreOptions("file", {**config.store, "path": str(self.target.parent)}),
                transport=FREE_PORTS,
                workers=min(os.cpu_count() or 1, most),
                worker_paths=(str(self.source),),
                batch_size=config.queue,
                stats_file=f"{folder}/pass.gz",
                force=True,
            )
            widest = self._scenario(most, len(self.sizes))
            session = stack.enter_context(
                open_session(run, [widest], observers, self.stop, is_series=True)
            )
            try:
                for files in config.files or (len(self.sizes),):
                    for users in config.users:
                        yield self._step(session, users, files)
            finally:
                if self.writes and not config.target:
                    self._delete(session, container=True)

    def _step(self, session: "Session", users: int, files: int) -> FilesStep:
        config = self.config
        seconds, passes, failed, example = 0.0, 0, 0, ""
        end_s = time.monotonic() + config.seconds
        while passes < config.passes or time.monotonic() < end_s:
            if self.writes:
                session.meanwhile(lambda: self._delete(session))
            scenario = self._scenario(users, files)
            result = execute(session, session.config, scenario, self._plan(files))
            if self.stop.requested:
                raise KeyboardInterrupt(self.stop.reason)
            counts = result.outcome.counts
            failed += counts.failed + counts.lost
            example = example or result.outcome.example
            seconds += session.meanwhile(partial(_seconds, result))
            passes += 1
            if failed:
                break
        found = [_facts(self.target / _name(number)) for number in range(files) if not failed]
        return FilesStep(
            users,
            files,
            sum(each.st_size for each in found),
            sum(each.st_blocks * 512 for each in found),
            seconds / passes,
            passes,
            failed,
            example,
        )

    def _scenario(self, users: int, files: int) -> Scenario:
        operation = CREATE if self.writes else READ
        return Scenario(
            name=f"bench files {self.config.method}",
            sizes=(replace(self._size_class(files), profile=((int(operation), 1.0),)),),
            user_count=users,
            operation_count=files,
            container_base=self.target.name,
            container_count=1,
        )

    def _size_class(self, files: int) -> SizeClass:
        sizes = self.sizes[:files]
        return SizeClass("file", min(sizes), max(sizes), (), files)

    def _plan(self, files: int) -> RunPlan:
        contents: dict[str, object] = {}
        if self.config.method == "copy":
            contents = asdict(FileContents(str(self.source), newest_ns=self.newest_ns))
        operation = CREATE if self.writes else READ
        names = {"kind": "numbered", "prefix": _PREFIX, "suffix": _SUFFIX}
        work = NumberedWorkload(operation, self._size_class(files), files, sizes=self.sizes)
        return RunPlan(names, self.writes, work, contents)

    def _delete(self, session: "Session", *, container: bool = False) -> None:
        """Delete the files that an earlier pass wrote; only from a folder with our mark."""
        if not self.target.exists():
            return
        with session.client() as client:
            storage = client.storage
            if not storage.owns(self.target.name):
                return  # the run says so, if there is something in it
            files = len(self.sizes)
            try:
                for first in range(0, files, _DELETED):
                    if self.stop.requested and not container:
                        return  # there will be no other pass
                    session.wait_for(f"Deleting: {first:,} of {plural(files, 'file')}")
                    numbers = range(first, min(first + _DELETED, files))
                    storage.bulk_delete(self.target.name, [_name(number) for number in numbers])
                if container:
                    storage.delete_container(self.target.name)
            finally:
                session.wait_for("")


def _facts(path: Path) -> os.stat_result:
    """:raises SsbenchError: others have deleted it."""
    try:
        return path.lstat()
    except OSError as error:
        raise SsbenchError(f"{printable(str(path))}: {error.strerror}") from error


def _seconds(result: "RunResult") -> float:
    return result.stats.total().seconds or 0.0


def _name(number: int) -> str:
    return f"{_PREFIX}{number}{_SUFFIX}"


def _listed(folder: Path) -> tuple[list[int], int]:
    """Bytes of each of its files, by number; and the latest time of change of any of them."""
    sizes, newest_ns = [], 0
    for number in count():
        try:
            found = (folder / _name(number)).lstat()
        except OSError:
            break
        if not stat.S_ISREG(found.st_mode):
            break
        sizes.append(found.st_size)
        newest_ns = max(newest_ns, found.st_ctime_ns)
    if not sizes:
        raise UsageError(
            f"{printable(str(folder))}: has no {_name(0)}; make a folder with gen-files"
        )
    return sizes, newest_ns
