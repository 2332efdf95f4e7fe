"""--verify and --checksum in a driver: checks bodies as they arrive, and ETags against their MD5.

Bodies are neither kept nor copied. Nearly all of the cost is MD5, which is computed only if the
store reports one. An operation's time ends with its last byte; checks after that aren't in it.

Contents of objects begin at different places of one block, so no sum is known beforehand: with a
checksum, each upload is summed, as an SDK does, and the time is part of the operation's. awscrt has
CRC32C and CRC64NVME with the instructions of the processor; hashlib the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import md5, sha256
from typing import Any, Protocol

import gevent

from ssbench.core.bodycheck import BodyCheck, expected_content
from ssbench.core.content import SyntheticSource
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.naming import Naming
from ssbench.core.operations import Target, row_of
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.storage.directory import FileContents
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import Collector, HeaderCollector

ClaimedMd5 = Callable[[Mapping[str, str]], str | None]

#: Bytes to hash before yielding to other greenlets: a millisecond or two.
HASH_SLICE = 1024 * 1024
_MD5 = partial(md5, usedforsecurity=False)


#: A store that encrypts, for one, may give ETags of the form of an MD5 that are none.
FOREIGN_ETAGS = (
    "the store's ETags look like an MD5 and are none of the content, even where that is right (does"
    " it encrypt objects?): content and length are checked, and ETags are not"
)


class CheckedBody(Collector):
    """Checks a body instead of collecting it.

    :param limit: size of the largest object of the size class, in bytes.
    :param claimed_md5: gives the MD5 that a response says its body has.
    """

    def __init__(self, limit: int, check: BodyCheck, claimed_md5: ClaimedMd5) -> None:
        super().__init__(limit)
        self.check = check
        self._claimed_md5 = claimed_md5
        self._hash = md5(usedforsecurity=False)
        self._claimed: str | None = None
        self._begun = False

    def add(self, part: memoryview) -> None:
        """As Collector.add; the headers are set before the first part."""
        if not self._begun:
            self._begun, self._claimed = True, self._claimed_md5(self.headers)
        self.check.add(part)
        if self._claimed:
            self._hash.update(part)

    def etag_mismatch(self) -> str:
        """How the ETag differs from the received bytes' MD5; "" if it doesn't, or they are only a
        part of the object.
        """
        if self.check.is_part:
            return ""
        claimed, found = self._claimed_md5(self.headers), self._hash.hexdigest()
        return (
            f"the ETag is {claimed}, and the MD5 of what was read {found}"
            if claimed not in (None, found)
            else ""
        )


class Verifier:
    """Checks the responses to a driver's requests: of synthetic content.

    :param content: of any block size.
    :param claimed_md5: gives the MD5 that a response says the object has.
    :param say: takes FOREIGN_ETAGS.
    """

    def __init__(
        self,
        settings: StorageSettings,
        naming: Naming,
        content: SyntheticSource,
        claimed_md5: ClaimedMd5,
        say: Callable[[str], object],
    ) -> None:
        self._claimed_md5 = claimed_md5
        self._say = say
        self._sizes = settings.sizes
        self._naming = naming
        self._content = content

    def read_collector(self, job: Job, offset: int = 0, length: int | None = None) -> Collector:
        """The collector for the body of a GET.

        :param offset: of the part that was requested; ``length``: its bytes, None: all.
        """
        size_class = self._sizes[job.size_class]
        name = self._naming.object(job.size_class, job.object)
        expected = expected_content(size_class, name, job, offset, length)
        return CheckedBody(
            size_class.size_max, BodyCheck(self._content, expected), self._claimed_md5
        )

    def check_read(self, job: Job, body: Any, timing: Timing) -> None:
        """Check a successful response to a GET.

        :param body: of ``read_collector``.
        :raises StorageError: CORRUPT or STALE.
        """
        finding, etag_mismatch = body.check.finding(body.headers), body.etag_mismatch()
        if finding and "content-encoding" in body.headers:
            coding = printable(body.headers["content-encoding"])
            finding = finding._replace(text=f"{finding.text}; Content-Encoding {coding}")
        if finding is None and not etag_mismatch:
            return
        if finding is None:
            self._ignore_etags()
            return
        if finding.kind is ErrorKind.STALE and etag_mismatch:
            # No store that merely lags has one version's bytes under another's ETag.
            raise self._failure(job, ErrorKind.CORRUPT, f"{finding.text}; {etag_mismatch}", timing)
        if row_of(job.operation).target is Target.VERSION:  # which no other may be read for
            finding = finding._replace(kind=ErrorKind.CORRUPT)
        raise self._failure(
            job, finding.kind, "; ".join(filter(None, [finding.text, etag_mismatch])), timing
        )

    def sent_mismatch(self, headers: Mapping[str, str], content: Upload) -> str:
        """How the ETag of the response to a PUT, of an object or a part of one, differs from the
        MD5 of the content; "" if it doesn't.
        """
        claimed = self._claimed_md5(headers)
        if claimed is None:
            return ""
        sent = sum_of(_MD5, content).hex()
        return f"the ETag is {claimed}, and the MD5 of what was sent {sent}" * (claimed != sent)

    def check_write(
        self, job: Job, mismatch: str, timing: Timing, read: Callable[[Collector], object]
    ) -> None:
        """Decide what a mismatch of the ETags of a written object means.

        :param mismatch: of ``sent_mismatch``; "": nothing is wrong.
        :param read: reads the object that was written.
        :raises StorageError: CORRUPT: the object's content is wrong, and not only the ETag.
        """
        if not mismatch:
            return
        body: Any = self.read_collector(job)
        try:
            read(body)
            is_right = body.check.finding(body.headers) is None
        except StorageError:
            is_right = False  # the ETag is all that is known
        if not is_right:
            raise self._failure(job, ErrorKind.CORRUPT, mismatch, timing)
        self._ignore_etags()

    def _ignore_etags(self) -> None:
        self._claimed_md5 = lambda headers: None
        self._say(FOREIGN_ETAGS)

    def _failure(self, job: Job, kind: ErrorKind, text: str, timing: Timing) -> StorageError:
        return StorageError(
            kind, f"{self._naming.path(job)}: {text}", status=timing.status, timing=timing
        )


class Md5Body(Collector):
    """Hashes a body instead of collecting it."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.hash = md5(usedforsecurity=False)

    def add(self, part: memoryview) -> None:
        self.hash.update(part)


class FileVerifier(Verifier):
    """The same of real files, by their MD5. Uploads compare it while the file is open."""

    def __init__(self, contents: FileContents, *given: Any) -> None:
        super().__init__(*given)
        self._contents = contents

    def read_collector(self, job: Job, offset: int = 0, length: int | None = None) -> Collector:
        size_max = self._sizes[job.size_class].size_max
        known = self._contents.checksum(job.object)
        return Md5Body(size_max) if known else HeaderCollector(size_max)

    def check_read(self, job: Job, body: Collector, timing: Timing) -> None:
        known = self._contents.checksum(job.object)
        if not isinstance(body, Md5Body) or body.hash.hexdigest() == known:
            return
        text = f"its MD5 is {body.hash.hexdigest()}, and that of the file {known}"
        raise self._failure(job, ErrorKind.CORRUPT, text, timing)

    def sent_mismatch(self, headers: Mapping[str, str], content: Upload) -> str:
        return ""


def verifier_of(
    settings: StorageSettings,
    naming: Naming,
    content: SyntheticSource,
    contents: FileContents | None,
    claimed_md5: ClaimedMd5 = lambda headers: None,
    say: Callable[[str], object] = lambda line: None,
) -> Verifier:
    """The verifier of a run.

    :param contents: real files; None: content is synthetic.
    :param claimed_md5, say: as of Verifier.
    """
    given = settings, naming, content, claimed_md5, say
    return FileVerifier(contents, *given) if contents else Verifier(*given)


#: Headers of a response -> the checksum that it says the object has; None: it says none.
Stated = Callable[[Mapping[str, str]], bytes | None]


class Sum(Protocol):
    """As of hashlib."""

    def update(self, data: memoryview | bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class Crc:
    """:param add: the CRC of bytes that follow those of a CRC.
    :param size: bytes of it."""

    def __init__(self, add: Callable[[Any, int], int], size: int) -> None:
        self._add, self._size, self._value = add, size, 0

    def update(self, data: memoryview | bytes, /) -> None:
        self._value = self._add(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


def begin_of(name: str) -> Callable[[], Sum]:
    """What begins a sum.

    :param name: of values.CHECKSUMS, but "none".
    :raises UsageError: what it needs is not installed.
    """
    if name == "md5":
        return _MD5
    if name == "sha256":
        return sha256
    try:
        from awscrt import checksums
    except ImportError:
        raise UsageError(
            f"checksum {name} needs awscrt: in ssbench's checkout, pip install '.[checksum]', here"
            " and on the hosts of workers"
        ) from None
    return partial(Crc, getattr(checksums, name), 4 if name == "crc32c" else 8)


def sum_of(begin: Callable[[], Sum], upload: Upload) -> bytes:
    """The checksum of a body; other greenlets run in between."""
    found, hashed = begin(), 0
    found.update(upload.first)
    for piece in upload.rest() if upload.rest else ():
        found.update(piece)
        hashed += len(piece)
        if hashed >= HASH_SLICE:
            hashed = 0
            gevent.sleep(0)
    return found.digest()


class SummedBody(Collector):
    """Sums a body as it arrives, if the store states a checksum.

    :param inner: gets the body as well; None: it is not kept.
    """

    def __init__(
        self, limit: int, begin: Callable[[], Sum], stated: Stated, inner: Collector | None
    ) -> None:
        super().__init__(limit)
        self.inner = inner
        self._begin, self._stated = begin, stated
        self._claimed: bytes | None = None
        self._sum: Sum | None = None

    def add(self, part: memoryview) -> None:
        if self._sum is None:
            self._sum, self._claimed = self._begin(), self._stated(self.headers)
            if self.inner is not None:
                self.inner.headers = self.headers
        if self._claimed is not None:
            self._sum.update(part)
        if self.inner is not None:
            self.inner.add(part)

    def mismatch(self) -> str:
        """How the sum differs from what the store states; "" if it doesn't."""
        if self._sum is None or self._claimed is None:
            return ""
        found = self._sum.digest()
        if found == self._claimed:
            return ""
        return f"the store's checksum is {self._claimed.hex()}, that of what it sent {found.hex()}"
