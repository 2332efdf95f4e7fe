"""OpenStack Swift over our own HTTP engine."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from time import perf_counter_ns
from urllib.parse import quote

from ssbench.core.content import Content
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, Operation, Timing
from ssbench.core.naming import LETTERS_HEADER, MARKER_HEADER, VERSION_HEADER, Naming
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import Action, ContainerEntry, ContainerFacts, StoreLimits
from ssbench.storage.httpbody import Collector
from ssbench.storage.httpconn import Upload
from ssbench.storage.swiftparse import (
    bulk_failures,
    container_entries,
    container_facts,
    object_names,
    store_limits,
)
from ssbench.storage.swiftsite import open_pools, take_apart
from ssbench.storage.verify import Verifier

_TRANS_ID_EXTRA_MAX = 32  #: characters that Swift appends to its transaction ids
_LISTING_MAX = 64 * 1024 * 1024  #: bytes: 10,000 names of 1,024 bytes, escaped in JSON
_ANSWER_MAX = 8 * 1024 * 1024
#: Bytes of a body's pieces, at the least. The kernel takes megabytes at once, and finds Python's
#: memory cold after each copy: few pieces save a sixth of what a long upload costs the driver.
_PIECE = 1024 * 1024
#: Network time-outs that an errand may take: a bulk delete is minutes, and drips blanks meanwhile.
_ERRAND_TIMEOUTS = 15


class SwiftStorage:
    """See ``ssbench.storage.base.Storage`` for what each method promises.

    :param seed: of the choice among several storage URLs.
    :raises UsageError: for a storage URL, token or certificate that can't be used.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        if not settings.storage_urls:
            raise UsageError("no storage URL: authenticate, or give one with -S")
        if settings.policy and not settings.policy.isprintable():
            raise UsageError(f"policy {settings.policy!r} can't stand in a header")
        self._settings = settings
        self._serial = settings.token_serial
        self._naming = Naming(
            settings.sizes,
            settings.run_id,
            settings.container_base,
            settings.container_count,
            settings.policy,
        )
        self._paths = _quoted_naming(settings)
        piece = max(settings.block_size, _PIECE)
        self._content = Content(piece, compressible=settings.compressible)
        self._sites = [take_apart(url) for url in settings.storage_urls]
        self._pools = open_pools(settings, self._sites)
        self._longest = [size.size_max for size in settings.sizes]
        self._errand_ns = int(_ERRAND_TIMEOUTS * settings.network_timeout_s * 1e9)
        self._many = len(self._pools)
        self._random = random.Random(seed).random  # nosec B311 # picks storage URLs
        self._tails: list[str] = []
        self._put_tails: list[str] = []
        self.set_token(settings.token, settings.token_serial)
        self._verifier = Verifier(settings, self._naming, self._content)
        # Two ways, so that who doesn't verify pays nothing for it.
        read: Action = self._read
        write: Action = self._write
        if settings.verify:
            read, write = self._read_verified, self._write_verified
        self.actions: Mapping[int, Action] = {
            Operation.CREATE: write,
            Operation.READ: read,
            Operation.UPDATE: write,
            Operation.DELETE: self._delete,
            Operation.ENSURE: self._ensure,
            Operation.REMOVE: self._remove,
        }

    # --- hot: the operations on objects

    def _read(self, job: Job, deadline_ns: int) -> Timing:
        url = 0 if self._many == 1 else int(self._random() * self._many)
        timing = self._pools[url].request(
            f"GET {self._sites[url].base}{self._path(job)}{self._tails[url]}\r\n".encode(),
            None,
            deadline_ns,
            None,
            self._longest[job.size_class],
        )
        if 200 <= timing.status < 300:
            return timing
        raise self._refusal("GET", timing)

    def _read_verified(self, job: Job, deadline_ns: int) -> Timing:
        body = self._verifier.body_of(job)
        timing = self._ask("GET", self._path(job), body, deadline_ns)
        if not 200 <= timing.status < 300:
            raise self._refusal("GET", timing)
        self._verifier.judge_read(job, body, timing)
        return timing

    def _write_verified(self, job: Job, deadline_ns: int) -> Timing:
        answer = Collector(_ANSWER_MAX)
        timing = self._write(job, deadline_ns, answer)
        self._verifier.judge_write(job, answer, timing)
        return timing

    def _write(self, job: Job, deadline_ns: int, answer: Collector | None = None) -> Timing:
        url = 0 if self._many == 1 else int(self._random() * self._many)
        version = f"{VERSION_HEADER}: {job.version}\r\n" if job.version else ""
        timing = self._pools[url].request(
            f"PUT {self._sites[url].base}{self._path(job)}{self._put_tails[url]}"
            f"{version}Content-Length: {job.size}\r\n\r\n".encode(),
            self._upload(job),
            deadline_ns,
            answer,
        )
        if 200 <= timing.status < 300:
            return timing
        raise self._refusal("PUT", timing)

    def _delete(self, job: Job, deadline_ns: int) -> Timing:
        timing = self._remove(job, deadline_ns)
        if timing.status != 404:
            return timing
        raise self._refusal("DELETE", timing)

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        """DELETE, where an object that isn't there is as good."""
        url = 0 if self._many == 1 else int(self._random() * self._many)
        timing = self._pools[url].request(
            f"DELETE {self._sites[url].base}{self._path(job)}{self._tails[url]}\r\n".encode(),
            None,
            deadline_ns,
        )
        timing = timing._replace(bytes_moved=0)  # an error's page is no object's bytes
        if 200 <= timing.status < 300 or timing.status == 404:
            return timing
        raise self._refusal("DELETE", timing)

    def _ensure(self, job: Job, deadline_ns: int) -> Timing:
        # HEAD first: initial objects survive runs, so a second run uploads only what an earlier one
        # updated. Those that expire are put anew: they might go in the middle of the run.
        if self._settings.delete_after_s is None:
            collector = Collector(_ANSWER_MAX, bodiless=True)
            timing = self._ask("HEAD", self._path(job), collector, deadline_ns)
            if timing.status != 404:
                if timing.status // 100 != 2:
                    raise self._refusal("HEAD", timing)
                if _is_initial(collector.headers, job.size, self._settings.compressible):
                    return timing._replace(status=200, bytes_moved=0)
        return self._write(job, deadline_ns)

    def _path(self, job: Job) -> str:
        """``container/object``, quoted."""
        paths = self._paths
        size_class, number = job.size_class, job.object
        return f"{paths.container(size_class, number)}/{paths.object(size_class, number)}"

    def _upload(self, job: Job) -> Upload:
        content = self._content
        name = self._naming.object(job.size_class, job.object).encode()
        if job.size <= content.block_size:
            return Upload(job.size, content.piece(name, job.version, job.size))

        def rest() -> Iterator[memoryview]:
            return islice(content.pieces(name, job.version, job.size), 1, None)

        first = content.piece(name, job.version, content.block_size)
        return Upload(job.size, first, rest)

    # --- cold: the errands around a run

    def connect(self, count: int) -> None:
        for pool in self._pools:
            pool.connect(count)

    def set_token(self, token: str, serial: int) -> None:
        if not (token.isascii() and token.isprintable()):
            raise UsageError("the token holds characters that can't stand in a header")
        self._serial = serial
        who = [name for name in (self._settings.run_id, self._settings.worker_id) if name]
        extra = quote("-".join(who), safe="")[:_TRANS_ID_EXTRA_MAX]
        delete_after_s = self._settings.delete_after_s
        extras = f"X-Delete-After: {delete_after_s}\r\n" if delete_after_s is not None else ""
        if self._settings.compressible:
            extras += f"{LETTERS_HEADER}: yes\r\n"
        self._tails = [
            f" HTTP/1.1\r\nHost: {site.netloc}\r\nUser-Agent: ssbench\r\nX-Auth-Token: {token}\r\n"
            f"X-Trans-Id-Extra: {extra}\r\n"
            for site in self._sites
        ]
        self._put_tails = [
            f"{tail}Content-Type: application/octet-stream\r\n{extras}" for tail in self._tails
        ]

    @property
    def token_serial(self) -> int:
        return self._serial

    def limits(self) -> StoreLimits:
        site = self._sites[0]
        collector = Collector(_ANSWER_MAX)
        # No token: /info is for everyone.
        head = f"GET /info HTTP/1.1\r\nHost: {site.netloc}\r\nUser-Agent: ssbench\r\n\r\n"
        deadline_ns = perf_counter_ns() + self._errand_ns
        timing = self._pools[0].request(head.encode(), None, deadline_ns, collector)
        return store_limits(bytes(collector.body)) if timing.status == 200 else StoreLimits()

    def container_facts(self, container: str) -> ContainerFacts:
        collector = Collector(_ANSWER_MAX, bodiless=True)
        self._must("HEAD", quote(container, safe=""), collector)
        return container_facts(collector.headers)

    def make_container(self, container: str) -> ContainerFacts | None:
        # HEAD first: a PUT would leave our marker on a container that isn't ours.
        try:
            found = self.container_facts(container)
        except StorageError as error:
            if error.status != 404:
                raise
            return self._put_container(container)
        policy = self._settings.policy
        if policy and found.policy and found.policy.lower() != policy.lower():
            raise StorageError(
                ErrorKind.STATUS,
                f"container {container!r} is there under policy {found.policy!r}, not {policy!r}",
                status=409,
            )
        if not found.marked and found.object_count == 0:
            self._put_container(container)
        return found

    def _put_container(self, container: str) -> ContainerFacts | None:
        """Make it, or mark it; the facts where somebody else made it meanwhile."""
        policy = self._settings.policy
        headers = f"{MARKER_HEADER}: {quote(self._settings.run_id) or 'yes'}\r\n"
        if policy is not None:
            headers += f"X-Storage-Policy: {policy}\r\n"
        path = quote(container, safe="")
        if self._must("PUT", path, Collector(_ANSWER_MAX), headers, b"").status == 202:
            return self.container_facts(container)
        return None

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        query = f"prefix={quote(prefix, safe='')}&{_page(marker, limit)}"
        return container_entries(self._listing(f"?{query}"))

    def list_objects(self, container: str, marker: str, limit: int) -> list[str]:
        return object_names(self._listing(f"{quote(container, safe='')}?{_page(marker, limit)}"))

    def delete_object(self, container: str, name: str) -> bool:
        return self._gone(f"{quote(container, safe='')}/{quote(name, safe='')}")

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        prefix = quote(container, safe="")
        body = "".join(f"{prefix}/{quote(name, safe='')}\n" for name in names).encode()
        collector = Collector(_LISTING_MAX)
        headers = "Content-Type: text/plain\r\nAccept: application/json\r\n"
        self._must("POST", "?bulk-delete", collector, headers, body)
        return bulk_failures(bytes(collector.body), container)

    def delete_container(self, container: str) -> bool:
        return self._gone(quote(container, safe=""))

    def close(self) -> None:
        for pool in self._pools:
            pool.close()

    def __repr__(self) -> str:
        return f"<SwiftStorage {self._pools!r}>"

    def _listing(self, path: str) -> bytes:
        collector = Collector(_LISTING_MAX)
        self._must("GET", path, collector)
        return bytes(collector.body)

    def _gone(self, path: str) -> bool:
        """DELETE; False where there was nothing."""
        try:
            self._must("DELETE", path, Collector(_ANSWER_MAX))
        except StorageError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _must(
        self,
        method: str,
        path: str,
        collector: Collector,
        headers: str = "",
        body: bytes | None = None,
    ) -> Timing:
        """``_ask``, where any status but success is a failure."""
        deadline_ns = perf_counter_ns() + self._errand_ns
        timing = self._ask(method, path, collector, deadline_ns, headers, body)
        if timing.status // 100 != 2:
            raise self._refusal(method, timing)
        return timing

    def _ask(
        self,
        method: str,
        path: str,
        collector: Collector,
        deadline_ns: int,
        headers: str = "",
        body: bytes | None = None,
    ) -> Timing:
        """A request whose answer the collector takes; ``path`` is quoted, below the account."""
        url = 0 if self._many == 1 else int(self._random() * self._many)
        upload = None
        if body is not None:
            headers += f"Content-Length: {len(body)}\r\n"
            upload = Upload(len(body), body)
        base = self._sites[url].base
        if path.startswith("?"):
            base = base.rstrip("/")
        head = f"{method} {base}{path}{self._tails[url]}{headers}\r\n".encode()
        return self._pools[url].request(head, upload, deadline_ns, collector)

    def _refusal(self, method: str, timing: Timing) -> StorageError:
        """What is raised for an answer that isn't success."""
        endpoint = self._sites[timing.url].endpoint
        return StorageError(
            ErrorKind.STATUS,
            f"{endpoint}: {method} answered {timing.status}",
            status=timing.status,
            timing=timing._replace(bytes_moved=0),
        )


def _is_initial(headers: Mapping[str, str], size: int, compressible: bool) -> bool:
    """Whether a HEAD's answer is of an initial object of this size as it was first uploaded."""
    changed = "x-delete-at" in headers or VERSION_HEADER.lower() in headers
    other = (LETTERS_HEADER.lower() in headers) is not compressible
    return headers.get("content-length") == str(size) and not (changed or other)


def _quoted_naming(settings: StorageSettings) -> Naming:
    """Names as they stand in a path.

    Numbers and underscores need no quoting, so the name of quoted parts is the quoted name:
    nothing has to be quoted for each request.
    """
    sizes = [replace(size, name=quote(size.name, safe="")) for size in settings.sizes]
    return Naming(
        sizes,
        quote(settings.run_id, safe=""),
        quote(settings.container_base, safe=""),
        settings.container_count,
        quote(settings.policy, safe="") if settings.policy else None,
    )


def _page(marker: str, limit: int) -> str:
    return f"format=json&limit={limit}&marker={quote(marker, safe='')}"
