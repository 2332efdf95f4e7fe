"""Checks a body against the content that its object must have, part by part as they arrive.

The content follows from the object's name and version (``core.content``), so nothing is kept: each
part is compared with the block at the offset where it must be.

Bodies of different names or versions begin at different offsets of the block, except for one pair
in four million, which this check can't tell apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ssbench.core.content import SyntheticSource, content_key, initial_size
from ssbench.core.model import ErrorKind, Job, SizeClass
from ssbench.core.naming import VERSION_HEADER
from ssbench.core.operations import Effect, Target, moved_bytes, row_of
from ssbench.core.text import plural

#: On responses whose ETag is not the MD5 of the body: Swift's large objects, S3's SSE-C.
_OTHER_ETAGS = (
    "x-static-large-object", "x-object-manifest", "x-amz-server-side-encryption-customer-algorithm",
)  # fmt: skip
_MD5 = re.compile(r'("?)([0-9a-f]{32})\1')
_NUMBER = re.compile(r"[0-9]{1,9}")
#: A wrong body is compared with this many earlier versions, the latest; an older one counts as
#: corrupt. The first version of a server-side copy can be any below KEYS
#: (content.version_of_copy).
_OLDER_VERSIONS = 10_000


class Expected(NamedTuple):
    """The content that a READ must return, and what a store that lags may return instead."""

    name: bytes
    version: int
    size: int
    old_sizes: range  #: that an earlier version may have had
    first_size: int | None = None  #: of version 0, if known
    offset: int | None = None  #: of the part that must be returned; None: the whole object


def expected_content(
    size_class: SizeClass, name: str, job: Job, offset: int = 0, length: int | None = None
) -> Expected:
    """What a READ of this object must return.

    :param name: the object's.
    :param offset: of the part of it that is read; ``length``: its bytes, None: all.
    """
    if length is not None:
        return Expected(name.encode(), job.version, length, range(length, length + 1), None, offset)
    is_initial = job.object < size_class.initial_files
    return Expected(
        name.encode(),
        job.version,
        job.size,
        range(size_class.size_min, size_class.size_max + 1),
        initial_size(size_class, job.object) if is_initial else None,
    )


class BodyFault(NamedTuple):
    """What is wrong with a body."""

    kind: ErrorKind  #: CORRUPT or STALE
    text: str  #: to follow the object's name


class BodyCheck:
    """Checks one body: ``add`` each part, then ``finding``."""

    def __init__(self, content: SyntheticSource, expected: Expected) -> None:
        self.received = 0
        self._content = content
        self._expected = expected
        self._start = expected.offset or 0
        self._key = content_key(expected.name, expected.version)
        self._wrong_at = -1
        self._older: list[int] = []  # after a wrong byte: versions that the body may be of

    @property
    def is_part(self) -> bool:
        """Whether only a part of the object is checked."""
        return self._expected.offset is not None

    def add(self, part: memoryview) -> None:
        """The next bytes, of any number."""
        if self._wrong_at < 0:
            right = self._content.agreement(self._key, self._start + self.received, part)
            if right < len(part):
                self._wrong_at = self.received + right
                newest = self._expected.version
                versions = range(max(newest - _OLDER_VERSIONS, 0), newest)
                self._older = [version for version in versions if self._begins_alike(version)]
        if self._older:
            self._older = [version for version in self._older if self._fits(version, part)]
        self.received += len(part)

    def finding(self, headers: Mapping[str, str]) -> BodyFault | None:
        """What is wrong with the body; None: nothing.

        :param headers: of the response, names in lower case. The version that they name counts
            if the bytes are right as far as they go, but too few or too many.
        """
        expected, received = self._expected, self.received
        if self._wrong_at < 0:
            if received == expected.size:
                return None
            self._older = [
                version for version in [_stated_version(headers)] if self._begins_alike(version)
            ]
        for version in self._older:
            if self._had_length(version):
                return BodyFault(ErrorKind.STALE, f"version {version}, expected {expected.version}")
        right = min(received, expected.size)
        offset = right if self._wrong_at < 0 else min(right, self._wrong_at)
        counted = plural(received, "byte") if received == expected.size else (
            f"{plural(received, 'byte')} in place of {expected.size:,}"
        )  # fmt: skip
        return BodyFault(ErrorKind.CORRUPT, f"wrong from byte offset {offset} on ({counted})")

    def _begins_alike(self, version: int) -> bool:
        """Whether an earlier version has what was received and was right."""
        name, expected = self._expected.name, self._expected.version
        if version >= expected:
            return False
        older, at = content_key(name, version), self._start
        for piece in self._content.pieces(name, expected, self.received, self._start):
            if self._content.agreement(older, at, piece) < len(piece):
                return False
            at += len(piece)
        return True

    def _fits(self, version: int, part: memoryview) -> bool:
        older, at = content_key(self._expected.name, version), self._start + self.received
        return self._content.agreement(older, at, part) == len(part)

    def _had_length(self, version: int) -> bool:
        """Whether an earlier version can have been as long as what was received."""
        first_size = self._expected.first_size
        if version == 0 and first_size is not None:
            return self.received == first_size
        return self.received in self._expected.old_sizes


def wrong_length(job: Job, size_class: SizeClass, received: int) -> str:
    """How the bytes that a READ received differ in number from its object, or the part of it that
    was asked for; "" if they don't, or the length is not known.

    :param size_class: of the job. Where operations of its profile give objects other content (also
        by removing one and creating it again, as a replayed log may), another job may do so at any
        time: then every length of the class is right.
    """
    row = row_of(job.operation)
    is_version = row.target is Target.VERSION
    if row.arguments and "length" not in row.arguments and not is_version:
        return ""  # of an operation of a driver elsewhere: how many bytes it means is not known
    expected = moved_bytes(job)
    if expected < 0 or received == expected:
        return ""
    effects = {row_of(each).effect for each, _share in size_class.profile}
    varies = Effect.REPLACES in effects or effects >= {Effect.CREATES, Effect.REMOVES}
    if varies and not is_version and size_class.size_min <= received <= size_class.size_max:
        return ""
    return f"{plural(received, 'byte')} in place of {expected:,}"


def claimed_md5(headers: Mapping[str, str]) -> str | None:
    """The MD5 of the body according to a response's ETag; None if the ETag is not that.

    Other forms (weak, or of several parts) say nothing about the content. Nor does the ETag of an
    object that S3 encrypts under a key of KMS, or of the client.
    """
    if any(name in headers for name in _OTHER_ETAGS):
        return None
    if headers.get("x-amz-server-side-encryption", "").startswith("aws:kms"):
        return None
    found = _MD5.fullmatch(headers.get("etag", "").lower())
    return found[2] if found else None


def _stated_version(headers: Mapping[str, str]) -> int:
    """The version that the store says the object has; the first one carries no header."""
    found = _NUMBER.fullmatch(headers.get(VERSION_HEADER.lower(), "0"))
    return int(found[0]) if found else 0
