"""What the drivers that speak HTTP share: their connections, and operations on objects."""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from time import perf_counter_ns
from typing import Any, Literal, NamedTuple, TypeVar, cast
from urllib.parse import quote

from gevent.pool import Pool

from ssbench.core import operations
from ssbench.core.bodycheck import claimed_md5
from ssbench.core.columns import MAX_ARGUMENT_BYTES
from ssbench.core.content import content_mark, source_of
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, LargeObject, LargeRead, Timing
from ssbench.core.naming import (
    CONTENT_HEADER,
    HEADERS_HEADER,
    SEGMENTS_HEADER,
    VERSION_HEADER,
    naming_of,
)
from ssbench.core.part_times import summary
from ssbench.core.settings import URL_CHOICES, StorageSettings
from ssbench.core.text import plural
from ssbench.storage.base import METHODS, Action, Listed, Page, all_pages, listed_of, methods_of
from ssbench.storage.directory import PIECE, DirectorySource, file_contents
from ssbench.storage.http.addresses import parse_storage_url
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.pool import ConnectionPool, open_pools
from ssbench.storage.http.response import (
    Collector,
    HeaderCollector,
    PartCollector,
    RangeCollector,
    check_range,
    whole_size,
)
from ssbench.storage.http.verify import (
    FOREIGN_ETAGS,
    ClaimedMd5,
    Md5Body,
    SummedBody,
    begin_of,
    sum_of,
    verifier_of,
)
from ssbench.storage.options import HttpSettings

#: Deadline of an administrative request, in network timeouts: a bulk delete takes minutes, and
#: sends blanks meanwhile.
ADMIN_TIMEOUTS = 15
#: Minimum size in bytes of a body's pieces. The kernel accepts megabytes per call, and evicts
#: Python's memory from the cache with each copy: few pieces save a sixth of a long upload's cost.
_PIECE = 1024 * 1024
_IF_ABSENT = "If-None-Match: *\r\n"
_VERSION_ID = re.compile(f"[!-~]{{1,{MAX_ARGUMENT_BYTES}}}")
Item = TypeVar("Item")
Result = TypeVar("Result")


class HttpClient:
    """What data path and admin have: connections to the addresses of the store.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: there is no storage URL, or one or a certificate is invalid.
    """

    concurrency: Literal["greenlets", "threads"] = "greenlets"
    no_url = "no storage URL"  #: the error where none is given

    def __init__(self, settings: StorageSettings, seed: int | None, http: HttpSettings) -> None:
        if not http.urls:
            raise UsageError(self.no_url)
        self._settings = settings
        self._urls = [parse_storage_url(url) for url in http.urls]
        pools = self._pools = open_pools(http, settings, self._urls)
        self._url_count = len(pools)
        #: Gives a number from 0 to below 1 for each request, from which its URL follows.
        self._random = _choice(settings.url_choice, random.Random(seed), pools)  # nosec B311
        self._serial = settings.newest.serial
        self._admin_timeout_ns = int(ADMIN_TIMEOUTS * settings.network_timeout_s * 1e9)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._pools!r}>"

    @property
    def credentials_serial(self) -> int:
        return self._serial

    def connect(self, count: int) -> None:
        for pool in self._pools:
            pool.connect(count)

    def close(self) -> None:
        for pool in self._pools:
            pool.close()

    def status_error(self, method: str, timing: Timing) -> StorageError:
        """The error for an unsuccessful response. Call it before any other wait."""
        return self._pools[timing.url].status_error(method, timing)

    def any_url(self) -> int:
        """The index of an address, by chance. Each operation has this expression instead of the
        call, which would cost it more."""
        return 0 if self._url_count == 1 else int(self._random() * self._url_count)

    def _admin_deadline_ns(self) -> int:
        return perf_counter_ns() + self._admin_timeout_ns


def _choice(
    how: str, chance: random.Random, pools: Sequence[ConnectionPool]
) -> Callable[[], float]:
    """
    :param how: one of URL_CHOICES.
    """
    count = len(pools)
    if how not in URL_CHOICES:
        raise UsageError(f"url_choice {how!r}: choose from {', '.join(URL_CHOICES)}")
    if how == "random":
        return chance.random
    first = chance.randrange(count)  # so that workers do not keep step
    turns = cycle([((first + at) % count + 0.5) / count for at in range(count)])
    if how == "round-robin":
        return turns.__next__

    def least_busy() -> float:
        last = int(next(turns) * count)
        in_use = [pool.in_use for pool in pools]
        # One that refuses connections has none in use, and would get nearly all requests.
        most = max(in_use)
        loads = [
            most if pool.dialler.fails else used for pool, used in zip(pools, in_use, strict=True)
        ]
        order = [(last + at) % count for at in range(count)]
        return (min(order, key=loads.__getitem__) + 0.5) / count

    return least_busy


class HttpStorage(HttpClient, ABC):
    """What the data paths share. A driver has the other methods named in ``METHODS``, and calls
    ``_make_actions`` once it is complete. One that lacks a method can't be made."""

    operations: Collection[int]
    actions: Mapping[int, Action]
    #: The name of HEADERS_HEADER in requests; "": the store keeps no metadata of an upload.
    headers_mark = HEADERS_HEADER
    version_header = ""  #: of a response: the id of a version, in a store that keeps some
    #: Statuses by which the store refuses a conditional write because of its condition.
    lost_race_statuses: Collection[int] = (409, 412)
    #: Returns the object's MD5 according to the response.
    _claimed_md5: ClaimedMd5 = staticmethod(claimed_md5)

    def __init_subclass__(cls) -> None:
        cls.operations = methods_of(cls).keys()

    def __init__(self, settings: StorageSettings, seed: int | None, http: HttpSettings) -> None:
        super().__init__(settings, seed, http)
        #: What begins a checksum of the settings' kind; None: uploads have none.
        self._begin_sum = begin_of(settings.checksum) if settings.checksum != "none" else None
        self._checks_writes = bool(
            settings.verify or settings.knows_versions or settings.object_lock
        )
        self._conditions: set[str] = set()  # those that the store was seen to hold; of all views
        dialler = self._pools[0].dialler
        self._remarks = dialler.remarks  # of all pools
        #: The addresses that Timings number, of all pools; of names that have several.
        self.addresses = dialler.numbered
        bodies = self._bodies = ObjectBodies(settings, self._claimed_md5, self._remarks.say)
        # Copied to save attribute lookups per operation.
        self._upload, self._longest, self._verifier = bodies.part, bodies.longest, bodies.verifier

    def connect(self, count: int) -> None:
        self._bodies.prepare()
        several = self._settings.large_object, self._settings.large_read
        super().connect(count * max(large.parallel if large else 1 for large in several))

    def close(self) -> None:
        super().close()
        if self._bodies.files:
            self._bodies.files.close()

    def moving(self) -> dict[int, int]:
        return self._bodies.files.moving() if self._bodies.files else {}

    def coding(self) -> str:
        return next((pool.shared.coding for pool in self._pools if pool.shared.coding), "")

    def _make_actions(self) -> dict[int, Action]:
        lines, initial = dict(self._settings.headers), self._settings.initial_headers
        found = self._actions()
        for operation in filter(self.operations.__contains__, lines):
            found[operation] = self._with_headers(lines[operation], "")._actions()[operation]
        if initial.mark:
            mark = f"{self.headers_mark}: {initial.mark}\r\n" if self.headers_mark else ""
            view = self._with_headers(lines.get(operations.ENSURE, ""), initial.lines + mark)
            found[operations.ENSURE] = view._actions()[operations.ENSURE]
        may_remark = (
            self._settings.verify
            or self._settings.expect_continue
            or self._bodies.files is not None
            or any(pool.dialler.has_name for pool in self._pools)
        )
        if not may_remark:  # and no operation pays for it
            return found
        return {each: _noting(act, self._remarks.lines) for each, act in found.items()}

    @abstractmethod
    def _with_headers(self, lines: str, uploads: str) -> HttpStorage:
        """The same driver, with further header lines in every request: no request pays for them
        where there are none.

        :param uploads: lines of uploads only.
        """

    def _actions(self) -> dict[int, Action]:
        actions: dict[int, Action] = {
            operation: getattr(self, METHODS[operation]) for operation in self.operations
        }
        # Separate methods, so that runs without --verify pay nothing for it.
        if self._settings.verify:
            actions[operations.READ] = self._read_verified
            actions[operations.RANGE_READ] = self._range_read_verified
        if self._checks_writes:
            actions[operations.CREATE] = actions[operations.UPDATE] = self._write_checked
        if self._begin_sum is not None:
            actions[operations.READ] = self._read_summed
        if self._settings.large_read is not None:
            actions[operations.READ] = RangedReads(
                self, self._settings.large_read, actions[operations.READ]
            ).read
        if self._bodies.files is not None:
            actions[operations.CREATE] = FileUploads(self, self._bodies.files).create
        return actions

    # What each store does in its own way, beside ``METHODS``

    @abstractmethod
    def checksum_lines(self, checksum: str) -> str:
        """Header lines by which the store refuses an upload of another MD5."""

    @abstractmethod
    def _read(
        self, job: Job, deadline_ns: int, body: Collector | None = None, lines: str = ""
    ) -> Timing:
        """:param lines: further header lines."""

    @abstractmethod
    def _write(
        self,
        job: Job,
        deadline_ns: int,
        response: Collector | None = None,
        upload: Upload | None = None,
        lines: str = "",
    ) -> Timing:
        """
        :param upload: None: the synthetic content of the job's object.
        :param lines: further header lines.
        """

    @abstractmethod
    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        """DELETE; a missing object counts as success."""

    @abstractmethod
    def _probe(self, job: Job, deadline_ns: int) -> tuple[Timing, bool]:
        """Whether the job's object is there as it was made, by one request that changes nothing."""

    # What follows from that

    def _delete(self, job: Job, deadline_ns: int) -> Timing:
        timing = self._remove(job, deadline_ns)
        if timing.status != 404:
            return timing
        raise self.status_error("DELETE", timing)

    def _read_verified(self, job: Job, deadline_ns: int) -> Timing:
        body = self._verifier.read_collector(job)
        timing = self._read(job, deadline_ns, body)
        self._check_read(job, body, timing)
        return timing

    def _read_summed(self, job: Job, deadline_ns: int) -> Timing:
        """:raises StorageError: CORRUPT: the content has another checksum than stated."""
        inner = self._verifier.read_collector(job) if self._settings.verify else None
        assert self._begin_sum is not None  # nosec B101 # for the type checker
        body = SummedBody(
            self._longest[job.size_class], self._begin_sum, self.stated_checksum, inner
        )
        timing = self._read(job, deadline_ns, body)
        if inner is not None:
            inner.headers = body.headers
            self._check_read(job, inner, timing)
        if wrong := body.mismatch():
            where = self._bodies.naming.path(job)
            raise StorageError(
                ErrorKind.CORRUPT, f"{where}: {wrong}", status=timing.status, timing=timing
            )
        return timing

    def stated_checksum(self, headers: Mapping[str, str]) -> bytes | None:
        """The checksum of the settings' kind that a response says its object has; None: none."""
        found = self._claimed_md5(headers)
        return None if found is None else bytes.fromhex(found)

    def sum_lines(self, upload: Upload) -> str:
        """The header lines with the checksum of an upload; "" if it has none."""
        if self._begin_sum is None:
            return ""
        return self.checksum_lines(sum_of(self._begin_sum, upload).hex())

    def _write_checked(self, job: Job, deadline_ns: int, *, lines: str = "") -> Timing:
        """An upload that is verified, or whose version is to be known."""
        response = Collector()
        timing = self._write(job, deadline_ns, response, lines=lines)
        if self._settings.verify:
            self._check_write(job, job, deadline_ns, response, timing)
        return self.with_version(timing, response)

    def with_version(self, timing: Timing, response: Collector) -> Timing:
        """With the id of the version that a response names."""
        if not self._settings.knows_versions:
            return timing
        found = response.headers.get(self.version_header, "")
        return timing._replace(version_id=found.encode() if _VERSION_ID.fullmatch(found) else b"")

    def _create_if_absent(self, job: Job, deadline_ns: int) -> Timing:
        return self._write_if(job, deadline_ns, _IF_ABSENT)

    def _write_if(
        self, job: Job, deadline_ns: int, condition: str, unmet: str = _IF_ABSENT
    ) -> Timing:
        """Upload an object under a condition.

        :param condition: a header line.
        :param unmet: one that does not hold once the object is there, by which the first upload
            finds out, outside its latency, whether the store minds such lines.
        :raises StorageError: LOST_RACE: the condition does not hold; PROTOCOL: the store ignores
            it.
        """
        write = self._write_checked if self._checks_writes else self._write
        try:
            timing = write(job, deadline_ns, lines=condition)
        except StorageError as error:
            if error.status in self.lost_race_statuses:
                error.kind = ErrorKind.LOST_RACE
            raise
        if unmet not in self._conditions:
            try:
                self._write(job, deadline_ns, lines=unmet)
            except StorageError as error:
                if error.status in self.lost_race_statuses:
                    self._conditions.add(unmet)
                return timing
            name = unmet.partition(":")[0]
            raise StorageError(
                ErrorKind.PROTOCOL,
                f"the store ignores {name}: it took an upload whose condition did not hold",
                status=timing.status, timing=timing,
            )  # fmt: skip
        return timing

    def _check_write(
        self, job: Job, written: Job, deadline_ns: int, response: Collector, timing: Timing
    ) -> None:
        """Check the response to an upload or a COPY.

        :param written: of the object that was written; it has the content of the job's.
        """

        mismatch = self._verifier.sent_mismatch(response.headers, self._bodies.part(job))
        self.check_written(job, written, deadline_ns, mismatch, timing)

    def check_written(
        self, job: Job, written: Job, deadline_ns: int, mismatch: str, timing: Timing
    ) -> None:
        """As ``Verifier.check_write``; the other arguments are those of _check_write."""

        def read(body: Collector) -> object:
            return self._read(written, deadline_ns, body)

        self._verifier.check_write(job, mismatch, timing, read)

    def _range_read(self, job: Job, deadline_ns: int) -> Timing:
        return self._read_range(job, deadline_ns, RangeCollector(self._longest[job.size_class]))

    def _range_read_verified(self, job: Job, deadline_ns: int) -> Timing:
        body = self._verifier.read_collector(job, *map(int, job.arguments))
        timing = self._read_range(job, deadline_ns, body)
        self._check_read(job, body, timing)
        return timing

    def _read_range(self, job: Job, deadline_ns: int, body: Collector) -> Timing:
        offset, length = map(int, job.arguments)
        lines = f"Range: bytes={offset}-{offset + length - 1}\r\n"
        timing = self._read(job, deadline_ns, body, lines)
        check_range(body.headers, timing, offset, length)
        return timing

    def _check_read(self, job: Job, body: Collector, timing: Timing) -> None:
        self._verifier.check_read(job, body, timing)

    def _ensure(self, job: Job, deadline_ns: int) -> Timing:
        # Initial objects survive runs, so a second run uploads only those that are missing or were
        # updated. Objects with an expiry are uploaded again: they might expire during the run. So
        # are those of which the store doesn't tell with which headers they were made.
        is_unknown = self._settings.initial_headers.lines and not self.headers_mark
        if is_unknown or self._settings.delete_after_s is not None:
            return self._write(job, deadline_ns)
        probe, is_initial = self._probe(job, deadline_ns)
        if is_initial:
            return probe._replace(status=200, bytes_moved=0)
        return written_after(probe, self._write_initial, job, deadline_ns)

    def _write_initial(self, job: Job, deadline_ns: int) -> Timing:
        if not self._settings.knows_versions:
            return self._write(job, deadline_ns)
        response = HeaderCollector()
        return self.with_version(self._write(job, deadline_ns, response), response)

    def _list(self, job: Job, deadline_ns: int) -> Timing:
        return self._page(listed_of(job, self._bodies.naming), deadline_ns).timing

    def _list_all(self, job: Job, deadline_ns: int) -> Timing:
        listed = listed_of(job, self._bodies.naming)
        if not self._settings.verify:
            listed = listed._replace(wanted="")
        return all_pages(partial(self._page, listed, deadline_ns), listed.wanted)

    @abstractmethod
    def _page(self, listed: Listed, deadline_ns: int, at: Any = None) -> Page:
        """A page of a listing.

        :param at: where it begins, as the page before says; None: it is the first.
        """


def _noting(action: Action, lines: list[str]) -> Action:
    """The same; a success takes one of these lines with it, if there is one, for the report."""

    def act(job: Job, deadline_ns: int) -> Timing:
        timing = action(job, deadline_ns)
        if not lines:
            return timing
        text = lines.pop(0)
        raise StorageError(ErrorKind.NONE, text, status=timing.status, timing=timing)

    return act


def written_after(probe: Timing, write: Action, job: Job, deadline_ns: int) -> Timing:
    """Upload an object; counts the reconnects of the request before it, too."""
    try:
        timing = write(job, deadline_ns)
    except StorageError as error:
        error.reconnects += probe.reconnects
        raise
    return timing._replace(reconnects=timing.reconnects + probe.reconnects)


def is_initial(
    headers: Mapping[str, str], size: int, settings: StorageSettings, segments: str = ""
) -> bool:
    """Whether a response to HEAD shows an unmodified initial object of this size.

    :param headers: names in lower case, those of metadata as in ``core.naming``.
    :param segments: the value of its SEGMENTS_HEADER; "": it must have none.
    """
    changed = "x-delete-at" in headers or VERSION_HEADER.lower() in headers
    wanted = {
        CONTENT_HEADER: content_mark(settings),
        HEADERS_HEADER: settings.initial_headers.mark,
        SEGMENTS_HEADER: segments,
    }
    other = any(headers.get(name.lower(), "") != value for name, value in wanted.items())
    return headers.get("content-length") == str(size) and not (changed or other)


class VersionedStorage(HttpStorage):
    """What the data paths of stores share that can keep versions."""

    version_key = ""  #: of a query: the id of a version

    def _actions(self) -> dict[int, Action]:
        actions = super()._actions()
        if self._settings.verify:
            actions[operations.READ_VERSION] = self._read_version_verified
        return actions

    def version_query(self, job: Job) -> str:
        """The query for the version that a job is for."""
        return f"{self.version_key}={quote(cast('bytes', job.arguments[0]), safe='')}"

    @abstractmethod
    def _read_version(
        self, job: Job, deadline_ns: int, body: Collector | None = None
    ) -> Timing: ...

    def _read_version_verified(self, job: Job, deadline_ns: int) -> Timing:
        body = self._verifier.read_collector(job)
        timing = self._read_version(job, deadline_ns, body)
        self._check_read(job, body, timing)
        return timing


class ObjectBodies:
    """Names and content of the run's objects, and checks of what the store returns.

    :param claimed_md5: gives the MD5 that a response says its object has; None: it says none.
    :param say: takes remarks, for the report.
    """

    def __init__(
        self, settings: StorageSettings, claimed_md5: ClaimedMd5, say: Callable[[str], object]
    ) -> None:
        self.claimed_md5 = claimed_md5
        self.say = say
        self.settings = settings
        self.naming = naming_of(settings)
        self.content = source_of(settings, _PIECE)
        contents = file_contents(settings)
        #: Real files to send; None: content is synthetic, or nothing is sent.
        self.files = DirectorySource(settings, contents) if contents and contents.path else None
        self.verifier = verifier_of(settings, self.naming, self.content, contents, claimed_md5, say)
        #: Bytes of the longest object of each size class.
        self.longest = [size.size_max for size in settings.sizes]
        self.expects = settings.expect_continue
        self._is_needed = not contents and (
            settings.verify
            or any(
                operations.row_of(each).body is operations.Body.SENT
                for size in settings.sizes
                for each, _ in size.profile
            )
        )

    def prepare(self) -> None:
        """Make the content, if the run may need it for more than its initial objects."""
        if self._is_needed:
            self.content.prepare()

    def part(self, job: Job, start: int = 0, size: int | None = None) -> Upload:
        """A part of the content of the job's object, from an offset on; by default, all of it."""
        name = self.naming.object(job.size_class, job.object).encode()
        size = job.size if size is None else size
        content, version = self.content, job.version
        # ENSURE has no header lines of the scenario, so it does not say Expect.
        expects = self.expects and job.operation != operations.ENSURE
        if size <= content.block_size and not expects:
            return Upload(size, content.piece(name, version, size, start))
        pieces = partial(content.pieces, name, version, size, start)
        if expects:
            return Upload(size, b"", pieces, expects=True)
        first = content.piece(name, version, content.block_size, start)
        return Upload(size, first, lambda: islice(pieces(), 1, None))


class FileUploads:
    """CREATE from a file: with sendfile where neither TLS nor a checksum needs the bytes here."""

    def __init__(self, driver: HttpStorage, files: DirectorySource) -> None:
        self._driver, self._files = driver, files
        self._hashes = files.contents.hashes
        self._has_md5 = True  #: the store's ETags are the MD5 of the content, as far as is known

    def create(self, job: Job, deadline_ns: int) -> Timing:
        """Upload a file. Reading it is part of the operation's time, comparing checksums is not.

        :raises StorageError: SOURCE_FILE, or CORRUPT: the store has another MD5.
        """
        driver = self._driver
        with self._files.open(job) as file:
            known = "" if self._hashes else file.checksum
            lines = driver.checksum_lines(known) if known else ""
            response = HeaderCollector() if self._hashes or known else None
            expects = driver._bodies.expects
            if job.size <= PIECE and not expects:
                upload = Upload(job.size, next(file.pieces(), b""))
            else:
                sendable = None if self._hashes else file
                upload = Upload(job.size, b"", file.pieces, expects, True, sendable)
            try:
                timing = driver._write(job, deadline_ns, response, upload, lines)
            except StorageError as error:
                if error.timing is not None:
                    file.check_unchanged(error.timing)
                if known and is_wrong_checksum(error):
                    error.kind = ErrorKind.CORRUPT
                    error.detail = f"{file.where}: the store received another MD5 than {known}"
                raise
            file.check_unchanged(timing)
            asked = response is not None and self._has_md5
            stored = driver._bodies.claimed_md5(response.headers) if asked and response else None
            if stored is None:
                return timing
            if stored == file.checksum:
                return timing._replace(items=1)
            if self._is_stored(job, deadline_ns, file.checksum):
                self._has_md5 = False
                driver._bodies.say(FOREIGN_ETAGS)
                return timing
            text = (
                f"{file.where}: the store's MD5 is {stored}, and that of the file {file.checksum}"
            )
            raise StorageError(ErrorKind.CORRUPT, text, status=timing.status, timing=timing)

    def _is_stored(self, job: Job, deadline_ns: int, checksum: str) -> bool:
        """Whether the object, read back, has this MD5."""
        body = Md5Body(job.size)
        try:
            self._driver._read(job, deadline_ns, body)
        except StorageError:
            return False
        return body.hash.hexdigest() == checksum


def is_wrong_checksum(error: StorageError) -> bool:
    """Whether the store refused an upload because of its checksum: Swift by 422, S3 by a code."""
    return error.status == 422 or (error.status == 400 and "BadDigest" in error.detail)


class ObjectsInParts:
    """Base of a driver's actions for objects above a size.

    :param whole: the driver's actions for objects that are stored as one.
    """

    #: Those for objects in parts. An operation without an entry uses that of ``whole``.
    actions: Mapping[int, Action]

    def __init__(
        self, driver: HttpStorage, large: LargeObject, whole: Mapping[int, Action]
    ) -> None:
        self._bodies = driver._bodies
        self._settings = self._bodies.settings
        self._check_written = driver.check_written
        self._large = large
        self._whole = whole

    def _routed(self, operation: int, in_parts: Action) -> Action:
        """An action for all objects: by the size of the job's."""
        whole, count = self._whole[operation], self._large.count

        def act(job: Job, deadline_ns: int) -> Timing:
            return (in_parts if count(job.size) else whole)(job, deadline_ns)

        return act

    def _may_have_parts(self, size_class: int) -> bool:
        return self._large.count(self._bodies.longest[size_class]) > 0

    def _part(self, job: Job, index: int) -> Upload:
        start = index * self._large.segment
        return self._bodies.part(job, start, min(self._large.segment, job.size - start))

    def _mismatch(self, part: str, content: Upload, headers: Mapping[str, str]) -> str:
        """Under --verify, how a part's ETag differs from the MD5 of its content; "" if it doesn't.

        :param part: its name or number.
        :param headers: of the response, names in lower case.
        """
        found = self._settings.verify and self._bodies.verifier.sent_mismatch(headers, content)
        return f"{part}: {found}" if found else ""

    def _all(self, request: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """As ``all_of``."""
        return all_of(request, items, self._large.parallel)


def all_of(request: Callable[[Item], Result], items: Iterable[Item], parallel: int) -> list[Result]:
    """The results of requests, so many at once, in order.

    :raises StorageError: the first failure, when none is in flight any more.
    """
    failures: list[StorageError] = []

    def attempt(item: Item) -> Result | None:
        try:
            return None if failures else request(item)
        except StorageError as error:
            failures.append(error)  # gevent would print one that leaves a greenlet
            return None

    pool = Pool(parallel)
    try:
        results = list(pool.imap(attempt, items, maxsize=parallel))
    finally:
        pool.kill()
    if failures:
        raise failures[0]
    return [each for each in results if each is not None]


class PartTiming(NamedTuple):
    """A request for a part of an object."""

    start_ns: int
    timing: Timing


def with_parts(timing: Timing, parts: Sequence[PartTiming]) -> Timing:
    """The timing of an operation, with how long its parts took.

    :param parts: in the order of their bytes, at least one.
    """
    times = [max(abs(each.timing.last_byte_ns) - each.start_ns, 0) for each in parts]
    found = summary(times, [each.timing.url for each in parts])
    return timing._replace(parts=found, part_id=parts[found[1]].timing.transaction_id)


class RangedReads:
    """READ of objects above a size: in ranges, several at once.

    The first response names the version, and the others must be of it: so parts of two versions
    never make one object, whatever is written meanwhile.

    :param whole: READ of other objects.
    """

    def __init__(self, driver: HttpStorage, large: LargeRead, whole: Action) -> None:
        self._driver, self._large, self._whole = driver, large, whole
        self._bodies, self._verifies = driver._bodies, driver._settings.verify

    def read(self, job: Job, deadline_ns: int) -> Timing:
        """As an Action.

        :raises StorageError: CHANGED: another version took the object's place meanwhile.
        """
        large = self._large
        if job.size <= large.above:
            return self._whole(job, deadline_ns)
        first, headers = self._part(job, 0, min(large.segment, job.size), deadline_ns)
        size, etag = whole_size(headers), headers.get("etag", "")
        if size is None or not etag:
            lacking = "no ETag" if size is not None else "no size of the object"
            raise self._failure(
                ErrorKind.PROTOCOL, job, f"{lacking} with the first of its parts", first.timing
            )
        if self._verifies and size != job.size:
            wrong = f"{plural(size, 'byte')} in place of {job.size:,}"
            raise self._failure(ErrorKind.CORRUPT, job, wrong, first.timing)

        def further(start: int) -> PartTiming:
            length = min(large.segment, size - start)
            return self._part(job, start, length, deadline_ns, size, etag)[0]

        starts = range(large.segment, size, large.segment)
        parts = [first, *all_of(further, starts, large.parallel)]
        return with_parts(
            first.timing._replace(
                last_byte_ns=max(abs(each.timing.last_byte_ns) for each in parts),
                bytes_moved=sum(each.timing.bytes_moved for each in parts),
                reconnects=sum(each.timing.reconnects for each in parts),
            ),
            parts,
        )

    def _part(
        self, job: Job, start: int, length: int, deadline_ns: int, size: int = 0, etag: str = ""
    ) -> tuple[PartTiming, Mapping[str, str]]:
        """Read a part; returns the headers of the response, too.

        :param size: of the object, by the first response; ``etag``: its version's, "": this is it.
        """
        driver, start_ns = self._driver, perf_counter_ns()
        body: Collector = PartCollector(self._bodies.longest[job.size_class])
        if self._verifies:
            body = self._bodies.verifier.read_collector(job, start, length)
        lines = f"Range: bytes={start}-{start + length - 1}\r\n"
        if etag and not etag.startswith("W/"):  # If-Match is never true of a weak one
            lines += f"If-Match: {etag}\r\n"
        try:
            timing = driver._read(job, deadline_ns, body, lines)
        except StorageError as error:
            if etag and error.status in (412, 416):
                raise self._changed(job, start, error.timing) from error
            raise
        if etag and (body.headers.get("etag", ""), whole_size(body.headers)) != (etag, size):
            raise self._changed(job, start, timing)
        if not etag and (found := whole_size(body.headers)) is not None:
            length = min(length, found)  # the object is shorter than it was
        check_range(body.headers, timing, start, length)
        if self._verifies:
            driver._check_read(job, body, timing)
        return PartTiming(start_ns, timing), body.headers

    def _changed(self, job: Job, start: int, timing: Timing | None) -> StorageError:
        what = f"another version took its place before the part from byte {start} on was read"
        return self._failure(ErrorKind.CHANGED, job, what, timing)

    def _failure(
        self, kind: ErrorKind, job: Job, wrong: str, timing: Timing | None
    ) -> StorageError:
        status = timing.status if timing else 0
        text = f"{self._bodies.naming.path(job)}: {wrong}"
        return StorageError(kind, text, status=status, timing=timing)


@contextmanager
def store_is_changed() -> Iterator[None]:
    """Mark each failure within as ``partly_done``: the operation has changed the store."""
    try:
        yield
    except StorageError as error:
        error.partly_done = True
        raise
