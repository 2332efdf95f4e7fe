"""``upload`` and ``download``: the real files of a folder, as objects of one container.

Each file is one operation of a run. An object is named as its file, with the folders between; a
container is made if there is none, and nothing is ever deleted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from hashlib import md5
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ssbench import statfile
from ssbench.commands.transfer.settings import NONE, PRECOMPUTE, STORE, TransferConfig
from ssbench.core.errors import SsbenchError, StorageError, UsageError
from ssbench.core.live import Observer
from ssbench.core.model import Failure, Job, Phase, SizeClass
from ssbench.core.naming import pack_names
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import bytes_text, plural, printable
from ssbench.core.workload.workload import NumberedWorkload
from ssbench.host.files import open_file
from ssbench.runner import check_thresholds, execute, open_session
from ssbench.runner.config import RunPlan
from ssbench.runner.containers import list_objects
from ssbench.runner.existing import MOST_PACKED, list_existing
from ssbench.runner.session import Session, counted_phase
from ssbench.runner.single_run import RunResult, step_path
from ssbench.runner.stop import Stop
from ssbench.storage.base import ContainerInfo
from ssbench.storage.directory import FileContents
from ssbench.storage.filetree import MARKER
from ssbench.storage.registry import CHECKSUMS as STORE_CHECKSUMS
from ssbench.storage.registry import UPLOADS, check_capabilities
from ssbench.storage.retrying_client import RetryingClient

#: Pages of a container's listing in which names are looked for.
_MOST_PAGES = 1000
_SHOWN = 3  #: names in a message


class TransferStep(Struct, frozen=True, kw_only=True):
    """What one run did."""

    is_upload: bool
    users: int
    checksum: str  #: of CHECKSUMS; of a download STORE if it compares, else NONE
    files: int
    result: RunResult
    bytes: int  #: of the files that were transferred
    checksum_s: float  #: time that computing checksums took, before the run
    compared: int  #: files whose checksum was found to be right
    #: Seconds of user and system time that master and workers of this host took during the run.
    cpu_s: tuple[float, float]
    failed: Sequence[str]  #: names of files that were not transferred

    @property
    def done(self) -> int:
        """Files that were transferred."""
        return self.result.outcome.counts.done

    @property
    def seconds(self) -> float:
        return self.result.outcome.seconds

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds if self.seconds else 0.0


class TransferWorkload(NumberedWorkload):
    """Each file once; keeps what became of them."""

    def __init__(self, operation: int, sizes: Sequence[int]) -> None:
        super().__init__(operation, None, len(sizes), sizes=sizes)
        self.bytes = 0  #: of the files that were transferred
        self.failed_numbers: list[int] = []
        self.ended = bytearray(len(sizes))  #: by number: 1 if it was transferred, or failed

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        for job in jobs:
            self.bytes += job.size
            self.ended[job.object] = 1

    def failed(self, job: Job, failure: Failure, now_s: float) -> None:
        self.failed_numbers.append(job.object)
        self.ended[job.object] = 1


class _CpuMeter(Observer):
    """Measures the CPU time of the run phase."""

    session: Session

    def __init__(self) -> None:
        self.cpu_s = (0.0, 0.0)  #: of the last run: user, system
        self._before: dict[int, tuple[float, float]] | None = None

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self._before = self.session.cpu_times() if phase is Phase.RUN else None

    def end_phase(self) -> None:
        if self._before is not None:
            pairs = [
                (was, now)
                for pid, now in self.session.cpu_times().items()
                if (was := self._before.get(pid))
            ]
            self.cpu_s = (
                sum(now[0] - was[0] for was, now in pairs),
                sum(now[1] - was[1] for was, now in pairs),
            )
            self._before = None


class Transfer:
    """What uploads and downloads share: one session, with a run for each step."""

    def __init__(
        self,
        config: TransferConfig,
        stack: ExitStack,
        observers: Sequence[Observer],
        stop: Stop | None,
    ) -> None:
        self.config = config
        widest = self._scenario(max(config.users), [0])
        check_thresholds(config.run, widest)
        self._is_series = is_series = len(config.users) * max(len(config.checksums), 1) > 1
        for users in config.users if is_series else ():
            for checksum in config.checksums or (STORE if config.folder is not None else NONE,):
                if path := self._path(users, checksum):
                    statfile.check_new(path, overwrite=config.run.force)
        self._cpu = _CpuMeter()
        folder = config.worker_folder or (config.folder and os.path.abspath(config.folder))
        run = replace(config.run, worker_paths=(folder,)) if folder else config.run
        self.session = self._cpu.session = stack.enter_context(
            open_session(run, [widest], [self._cpu, *observers], stop, is_series=is_series)
        )
        self.names: Sequence[str] = ()  #: of the objects, by number
        self.sizes: Sequence[int] = ()  #: the same
        self._shown: Callable[[str], str] = str  # a name, for messages
        self.workload: TransferWorkload | None = None  #: of the present run

    @property
    def total_bytes(self) -> int:
        """Of all objects."""
        return sum(self.sizes)

    def _path(self, users: int, checksum: str) -> str | None:
        """The stat file of a run."""
        path = self.config.run.stats_file
        return step_path(path, f"{checksum}-{users}") if self._is_series else path

    def _scenario(self, users: int, sizes: Sequence[int]) -> Scenario:
        config = self.config
        return Scenario(
            name=f"{config.name} {config.container}",
            sizes=(
                SizeClass(
                    "file", min(sizes), max(sizes), ((config.operation, 1.0),), len(sizes)
                ),
            ),
            user_count=users,
            operation_count=len(sizes),
            container_base=config.container,
            container_count=1,
            source=config.name,
            **config.run.overrides,
        )  # fmt: skip

    def _compute_md5(self, folder: str, names: Sequence[str]) -> tuple[bytes, float]:
        paths = [os.path.join(folder, name) for name in names]
        session = self.session
        with counted_phase(session.observers, Phase.IDLE, len(paths), "Computing MD5") as count:
            return session.meanwhile(
                lambda: compute_md5(paths, os.cpu_count() or 1, count, session.stop)
            )

    def _execute(
        self, users: int, checksum: str, contents: Mapping[str, Any], checksum_s: float
    ) -> TransferStep:
        config, session = self.config, self.session
        workload = self.workload = TransferWorkload(config.operation, self.sizes)
        packed = pack_names(self.names)
        if len(packed) > MOST_PACKED:
            raise UsageError(
                f"{config.name}: the names of {plural(len(self.names), 'file')} are too long for"
                " one run: transfer fewer at a time, with --num-files or by folders"
            )
        names = {"kind": "listed", "containers": [config.container], "packed_names": packed}
        plan = RunPlan(names, bool(config.checksums), workload, contents)
        run = replace(config.run, stats_file=self._path(users, checksum))
        result = execute(session, run, self._scenario(users, self.sizes), plan)
        if result.has_results:
            for text in session.meanwhile(lambda: list(result.stats.store_notes)):
                session.info(f"Note: {text}")
        return TransferStep(
            is_upload=bool(config.checksums),
            users=users,
            checksum=checksum,
            files=len(self.names),
            result=result,
            bytes=workload.bytes,
            checksum_s=checksum_s,
            compared=self._compared(result, checksum),
            cpu_s=self._cpu.cpu_s,
            failed=[self._shown(self.names[number]) for number in workload.failed_numbers],
        )

    def _compared(self, result: RunResult, checksum: str) -> int:
        if checksum == NONE or not result.has_results:
            return 0
        return self.session.meanwhile(lambda: int(result.stats.total().items))


class FolderUpload(Transfer):
    """Uploads the files of a folder, in one run or several.

    :raises UsageError: the folder has no files that can be uploaded, or the store can't take them.
    :raises SsbenchError: the store can't be reached.
    """

    def __init__(
        self,
        config: TransferConfig,
        stack: ExitStack,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
    ) -> None:
        assert config.folder is not None  # nosec B101 # of the type, a download's may be
        self.files = list_files(config.folder, config.limit)
        # What others keep in the container is checked here, by the names of the files.
        run = replace(config.run, use_existing=True)
        super().__init__(replace(config, run=run), stack, observers, stop)
        self.names = [config.before_names + name for name in self.files.names]
        self.sizes = self.files.sizes
        self._md5, self._checksum_s = b"", 0.0
        self.container = self._check_store()

    def _check_store(self) -> ContainerInfo | None:
        """The container as it is; None: there is none.

        :raises UsageError: the store can't take a file, or an upload would overwrite what is not
            ours.
        """
        config = self.config
        settings = self.session.store().settings
        for _key, line in check_capabilities(settings, (), {UPLOADS: True}):
            raise UsageError(line)
        if {*config.checksums} != {NONE}:
            for _key, line in check_capabilities(settings, (), {STORE_CHECKSUMS: True}):
                raise UsageError(f"{line}; without them: --checksum none")
        try:
            with self.session.client(exact_names=True) as client:
                return self._check_container(client)
        except StorageError as error:
            raise SsbenchError(
                f'container "{printable(config.container)}": {printable(error.detail)}'
            ) from error

    def _check_container(self, client: RetryingClient) -> ContainerInfo | None:
        config, files = self.config, self.files
        limits = client.call(client.storage.limits)
        size, name = max(zip(files.sizes, files.names, strict=True))
        most = limits.max_object_size
        if most is not None and size > most:
            raise UsageError(
                f"{printable(name)}: its {bytes_text(size)} are more than the"
                f" {bytes_text(most)} that this store takes in one object"
            )
        longest = max(self.names, key=lambda each: len(each.encode()))
        most = limits.max_object_name_length
        if most is not None and len(longest.encode()) > most:
            raise UsageError(
                f"{printable(longest)}: the name has {len(longest.encode())} bytes; this store"
                f" allows {most}"
            )
        try:
            found = client.call(client.storage.container_info, config.container)
        except StorageError as error:
            if error.status == 404:
                return None
            raise
        if not (found.marked or found.object_count == 0 or config.overwrite):
            self._check_names(client)
        return found

    def _check_names(self, client: RetryingClient) -> None:
        """:raises UsageError: the container of others has objects with names of files."""
        wanted, last = {*self.names}, max(self.names)
        container = self.config.container
        met: list[str] = []
        listing = list_objects(client, container, marker=min(self.names)[:-1])
        for number, page in enumerate(listing):
            met += [entry.name for entry in page if entry.name in wanted]
            if page[-1].name > last:
                break
            if number == _MOST_PAGES:
                raise UsageError(
                    f'container "{printable(container)}" has no mark of ssbench and too many'
                    " objects to see whether the files would replace any; --overwrite uploads them"
                )
        if met:
            shown = ", ".join(map(printable, met[:_SHOWN])) + (", ..." if met[_SHOWN:] else "")
            raise UsageError(
                f'container "{printable(container)}" has no mark of ssbench, and'
                f" {plural(len(met), 'object')} with names of files: {shown}; --overwrite replaces"
                " them"
            )

    def prepare(self) -> None:
        """If any run has PRECOMPUTE, compute all checksums, once. Call it before the first run, so
        that each of them finds in memory what fits there."""
        files = self.files
        if not self._md5 and PRECOMPUTE in self.config.checksums:
            self._md5, self._checksum_s = self._compute_md5(files.folder, files.names)

    def run(self, users: int, checksum: str) -> TransferStep:
        """One run.

        :raises SsbenchError, KeyboardInterrupt, Aborted: as ``runner.run``.
        """
        self.prepare()
        config, files = self.config, self.files
        contents = FileContents(
            path=config.worker_folder or os.path.abspath(files.folder),
            prefix=config.before_names,
            newest_ns=files.newest_ns,
            hashes=checksum == STORE,
            md5=self._md5 if checksum == PRECOMPUTE else b"",
        )
        checksum_s = self._checksum_s if checksum == PRECOMPUTE else 0.0
        return self._execute(users, checksum, asdict(contents), checksum_s)


class ContainerDownload(Transfer):
    """Reads the objects of a container once, and discards what is read.

    :raises SsbenchError: there are none, or the store can't be reached.
    """

    def __init__(
        self,
        config: TransferConfig,
        stack: ExitStack,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
    ) -> None:
        files = list_files(config.folder) if config.folder is not None else None
        run = replace(config.run, verify=files is not None)
        super().__init__(replace(config, run=run), stack, observers, stop)
        place, session = f"{config.container}/{config.before_names}", self.session
        try:
            with session.client(exact_names=True) as client:
                found = list_existing(client, place, self._scenario(1, [0]), session.wait_for)
        finally:
            session.wait_for("")
        session.stop.check()
        for line in found.left_out:
            session.warn(line)
        self.listed = found.listed
        self.names, self.sizes = found.names[: config.limit], found.sizes[: config.limit]
        skipped = len(config.before_names)
        with_file = {*files.names} if files else set()
        #: Names of files without an object; of objects without a file. Without --verify none.
        self.missing = sorted(with_file.difference(name[skipped:] for name in found.names))
        unknown = [n for n in self.names if files and n[skipped:] not in with_file]
        self._shown = client.shown  # a store chooses the names of its objects
        self.unknown = [*map(client.shown, unknown)]
        if found.listed > len(found.names) or config.limit is not None:
            self.missing = []  # they may be among those that are left out
        self._md5, self._checksum_s = b"", 0.0
        self.unreadable: list[str] = []  #: names of files with an object
        if config.folder is not None:
            # Names of objects may lead anywhere, as "/dev/zero": only files of the folder are read.
            names = [name[skipped:] for name in self.names]
            own = [name if name in with_file else "" for name in names]
            self._md5, self._checksum_s = self._compute_md5(config.folder, own)
            digests = (self._md5[at : at + 16] for at in range(0, len(self._md5), 16))
            self.unreadable = [
                name for name, each in zip(own, digests, strict=True) if name and not any(each)
            ]

    def run(self, users: int) -> TransferStep:
        """One run.

        :raises SsbenchError, KeyboardInterrupt, Aborted: as ``runner.run``.
        """
        contents = asdict(FileContents(md5=self._md5)) if self.config.folder is not None else {}
        checksum = STORE if contents else NONE
        return self._execute(users, checksum, contents, self._checksum_s)

    def _compared(self, result: RunResult, checksum: str) -> int:
        unknown = sum(not any(self._md5[at : at + 16]) for at in range(0, len(self._md5), 16))
        return max(result.outcome.counts.done - unknown, 0) if checksum == STORE else 0


_COUNT_EVERY_S = 0.5
_PIECE = 1 << 20  #: bytes of a file that are hashed at a time


class FileList(Struct, frozen=True):
    """The regular files of a folder, with the folders in it, in the order of their names."""

    folder: str
    names: list[str]  #: relative to the folder
    sizes: list[int]  #: bytes
    newest_ns: int  #: the latest time of change of any of them
    skipped_links: int = 0
    skipped_others: int = 0  #: devices, pipes, sockets


def list_files(folder: str, limit: int | None = None) -> FileList:
    """The files of a folder. No symbolic link in it is followed.

    :raises UsageError: the folder or one in it can't be read, a name is not UTF-8, or there is no
        file.
    """
    found: list[tuple[str, int, int]] = []
    links = others = 0
    folders = [""]
    while folders:
        prefix = folders.pop()
        path = os.path.join(folder, prefix.rstrip("/")) if prefix else folder
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    name = f"{prefix}{entry.name}"
                    if entry.is_symlink():
                        links += 1
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(f"{name}/")
                    elif not entry.is_file(follow_symlinks=False):
                        others += 1
                    elif entry.name != MARKER:
                        status = entry.stat(follow_symlinks=False)
                        found.append((name, status.st_size, status.st_ctime_ns))
        except FileNotFoundError as error:
            if not prefix:
                raise UsageError(f"{printable(folder)}: {error.strerror}") from error
            # A file or folder that is deleted meanwhile is left out.
        except OSError as error:
            raise UsageError(f"{printable(path)}: {error.strerror}") from error
    found.sort()
    found = found[:limit]
    for name, _, _ in found:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{printable(os.path.join(folder, name))}: the name is not UTF-8, as names of"
                " objects are; rename it"
            ) from error
    if not found:
        raise UsageError(f"{printable(folder)}: has no files")
    names, sizes, changed_ns = map(list, zip(*found, strict=True))
    return FileList(folder, names, sizes, max(changed_ns), links, others)


def compute_md5(
    paths: Sequence[str], threads: int, count: Callable[[int, int], None], stop: Stop
) -> tuple[bytes, float]:
    """The MD5 of files, 16 bytes each, and the seconds that it took. Zeros for those that can't be
    read: sending them will say why.

    :param count: called with the number that is done, and that of all, at least each half second.
    :raises KeyboardInterrupt: it was stopped.
    """
    began_s = time.monotonic()
    digests: list[bytes] = []
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(_md5_of, path, stop) for path in paths]:
            while wait([future], timeout=_COUNT_EVERY_S).not_done:
                count(len(digests), len(paths))
            if stop.requested:
                pool.shutdown(cancel_futures=True)
                stop.end()
            digests.append(future.result())
            count(len(digests), len(paths))
    return b"".join(digests), time.monotonic() - began_s


def _md5_of(path: str, stop: Stop) -> bytes:
    digest = md5(usedforsecurity=False)
    try:
        with open_file(path, follow=False) as file:
            while (piece := file.read(_PIECE)) and not stop.requested:
                digest.update(piece)
    except (OSError, UsageError):
        return bytes(digest.digest_size)
    return digest.digest()
