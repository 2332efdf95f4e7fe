"""The names, metadata and XML of S3. Responses are treated as untrusted input. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from html import unescape
from typing import NamedTuple
from urllib.parse import quote, unquote_plus
from xml.sax.saxutils import escape  # nosec B406 # only writes

from ssbench.core.content import content_mark
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.naming import (
    CONTENT_HEADER,
    HEADERS_HEADER,
    POST_HEADER,
    SEGMENTS_HEADER,
    VERSION_HEADER,
)
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.storage.base import order_fault
from ssbench.storage.http.response import LISTING_MAX, RESPONSE_MAX, Collector, XmlReader
from ssbench.storage.s3.options import LEGAL_BUCKETS, check_bucket

RUN_HEADER = "x-amz-meta-ssbench-run"
_META, _NEUTRAL = "x-amz-meta-", "x-object-meta-"  # NEUTRAL: as in core.naming
#: Metadata of an object (see core.naming), as S3 names them.
VERSION, POST, CONTENT, SEGMENTS, HEADERS = (
    name.lower().replace(_NEUTRAL, _META)
    for name in (VERSION_HEADER, POST_HEADER, CONTENT_HEADER, SEGMENTS_HEADER, HEADERS_HEADER)
)
#: Codes that new credentials may cure.
REJECTED = frozenset(
    {
        "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)  # fmt: skip
#: A name of naming.container_name.
_OURS = re.compile(r".*_[0-9]{6,10}(_[^/]+)?", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_ESCAPED = re.compile(r"--([0-9a-f]{2})|-")
#: Elements that hold a record, below the root.
_RECORDS = frozenset(
    {"Contents", "CommonPrefixes", "Bucket", "DeleteMarker", "Error", "Tag", "Upload", "Version"}
)
#: Elements whose text is used, in records and below the root.
_VALUES = frozenset(
    {
        "Buckets", "Code", "ETag", "EncodingType", "Initiated", "IsLatest", "IsTruncated", "Key",
        "KeyCount", "Marker", "Message", "Mode", "Name", "NextContinuationToken", "NextKeyMarker",
        "NextVersionIdMarker", "ObjectLockEnabled", "Prefix", "RetainUntilDate", "Size", "Status",
        "UploadId", "Value", "VersionId",
    }
)  # fmt: skip
#: The marker object of a container: it says that ssbench made it. No object of ours has this name.
BUCKETS_ROOT = "ListAllMyBucketsResult"
MARK = ".ssbench"
_LISTING_ROOT = re.compile(rb"<([A-Za-z_][\w.-]{0,63}:)?ListBucketResult[\s>]")
_QUOTED = re.compile("[%+]").search
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_ENTRY_MAX = 1 << 14  #: bytes of an entry of a listing: a key of 1,024 bytes, quoted, and the rest
_ERROR_FIELDS = ("Code", "Message", "Region", "Endpoint")
TAGS_MAX = 50  #: of one object, in stores that take more than Amazon's 10
_TAG = "ssbench-"  #: how the keys of our tags begin
_SHOWN = 200  #: characters of an error's message
_REGION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SIGNATURE = re.compile(r"(Signature=)\w+", re.IGNORECASE)


def bucket_of(container: str) -> str:
    """The bucket of a container that we name: ``ssbench-000061-gold`` of ``ssbench_000061_gold``.

    ``_`` becomes ``-``; whatever else but lower-case letters and digits becomes ``--`` and two
    hexadecimal digits for each byte. ``container_of`` is the inverse.

    :raises UsageError: Amazon accepts no bucket of this name.
    """
    parts: list[str] = []
    for character in container:
        if character in "abcdefghijklmnopqrstuvwxyz0123456789":
            parts.append(character)
        elif character == "_" and (not parts or not parts[-1].startswith("-")):
            parts.append("-")
        else:
            parts.extend(f"--{byte:02x}" for byte in character.encode())
    bucket = "".join(parts)
    if not _BUCKET.fullmatch(bucket):
        raise UsageError(
            f'container "{printable(container)}" has no legal bucket name ("{printable(bucket)}"):'
            f" {LEGAL_BUCKETS}. Choose another container_base, or one bucket (--s3-bucket)"
        )
    return bucket


def container_of(bucket: str) -> str | None:
    """The container of a bucket: ``ssbench_000061`` of ``ssbench-000061``. One that we can't have
    named has its own name; None if that is the name of a container of ours, or of no bucket."""
    pieces = _ESCAPED.split(bucket)
    octets = b"".join(
        piece.encode() if index % 2 == 0 else bytes.fromhex(piece) if piece else b"_"
        for index, piece in enumerate(part or "" for part in pieces)
    )
    container = octets.decode("utf-8", "replace")
    with suppress(UsageError):
        if bucket_of(container) == bucket:
            return container
    with suppress(UsageError):
        return None if _OURS.fullmatch(bucket) else check_bucket(bucket)
    return None


def listing_query(
    prefix: str, limit: int, *, after: str = "", token: str = "", delimiter: str = ""
) -> str:
    """The query of a listing page, in canonical form."""
    values = {
        "continuation-token": token, "delimiter": delimiter, "encoding-type": "url",
        "list-type": "2", "max-keys": str(limit), "prefix": prefix, "start-after": after,
    }  # fmt: skip
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in values.items() if value)


def upload_metadata(settings: StorageSettings) -> str:
    """The signed header lines with the metadata of all uploads."""
    lines = f"{RUN_HEADER}: {quote(settings.run_id)}\r\n" if settings.run_id else ""
    mark = content_mark(settings)
    return f"{lines}{CONTENT}: {mark}\r\n" if mark else lines


def neutral(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a response with metadata named as in ``core.naming``."""
    return {name.replace(_META, _NEUTRAL): text for name, text in headers.items()}


class S3Error(NamedTuple):
    """An error response; "" for what it does not say."""

    code: str = ""
    message: str = ""
    region: str = ""  #: of the bucket, if the request went to another one
    endpoint: str = ""  #: where the bucket is served

    def __str__(self) -> str:
        return ": ".join(dict.fromkeys(filter(None, (self.code, self.message))))


def error_of(body: bytes) -> S3Error:
    """The error in the beginning of a response body; an empty one if there is none."""
    text = body.decode("utf-8", "replace")
    values = []
    for name in _ERROR_FIELDS:
        found = re.search(f"<{name}>([^<]*)", text)
        values.append(_shown(unescape(found[1])) if found else "")
    return S3Error(*values)


def region_of(error: S3Error, headers: Mapping[str, str]) -> str:
    """The bucket's region that a response names; "" for none, or what can be none."""
    region = error.region or headers.get("x-amz-bucket-region", "")
    return region if _REGION.fullmatch(region) else ""


def _shown(text: str) -> str:
    """A server's text without signatures, in one line."""
    text = _SIGNATURE.sub(r"\1***", " ".join(text.split()))
    return printable(text)[:_SHOWN]


class NextPage(NamedTuple):
    """Where the next page of a listing begins."""

    token: str
    key: str = ""  #: the last object so far
    folder: str = ""  #: the last common prefix so far


class ItemCounter(Collector):
    """Counts the entries of a listing as it arrives, without marks, and keeps no more than their
    names. It parses none of them: 1,000 would cost a hundred times the request. Buffers one entry.

    :param prefix: with which the names were requested to begin.
    :param before: what comes before the name of a mark: the container, where it is a prefix.
    :param limit: the number of entries that were requested.
    :param at: where the page begins; None: it is the first.
    :param wanted: an entry to look for; "": none.
    """

    def __init__(
        self, prefix: str, before: str, limit: int, at: NextPage | None = None, wanted: str = ""
    ) -> None:
        super().__init__(LISTING_MAX)
        self.items = 0
        self.has_wanted = False
        self._at, self._wanted = at or NextPage(""), wanted
        self._is_truncated = False
        self._token = b""  #: of the next page
        self._prefix, self._mark, self._limit = prefix, before + MARK, limit
        self._tags: _Tags | None = None  #: None: the root is still to come
        self._is_quoted = False
        self._keys: list[bytes] = []
        self._folders: list[bytes] = []
        self._rest = b""  #: behind the entries so far
        self._wrong = ""

    def feed(self, data: memoryview) -> None:
        text = self._rest + bytes(data)
        tags = self._tags
        if tags is None:
            found = _LISTING_ROOT.search(text)
            if found is None:
                self._rest = text[-_ENTRY_MAX:]
                return
            self._tags = tags = _tags_of(found[1] or b"")
        ends = [text.rfind(tag) + len(tag) for tag in tags.ends if tag in text]
        end = max(ends, default=0)
        whole, self._rest = text[:end], text[end:]
        self._is_quoted = self._is_quoted or tags.quoted in whole or tags.quoted in self._rest
        self._is_truncated = self._is_truncated or tags.truncated in text
        if not self._token and (token := tags.token.search(text)):
            self._token = token[1]
        keys, folders = tags.key.findall(whole), tags.folder.findall(whole)
        if (len(keys), len(folders)) != tuple(map(whole.count, tags.ends)):
            self._wrong = "an entry without a name"
        self._keys += keys
        self._folders += folders
        self.items += len(keys) + len(folders)
        if self.items > self._limit + 1:  # a mark is among them at most
            self._keys, self._folders = self._keys[-1:], self._folders[-1:]
        if len(self._rest) > _ENTRY_MAX:
            self._rest = self._rest[-_ENTRY_MAX:]

    def check(self, timing: Timing) -> None:
        """Check what was counted, after all data was fed.

        :raises StorageError: PROTOCOL: it is no complete listing, or longer than requested, or of
            names that were not requested, or not in order.
        """
        if self._tags is None or not self._rest.rstrip().endswith(self._tags.end):
            raise malformed("a listing", timing)
        wrong, keys = self._wrong, self._names(self._keys)
        folders, at = self._names(self._folders), self._at
        self.items -= self._mark in keys
        if self.items > self._limit:
            wrong = f"{self.items} entries, where {self._limit} were requested"
        else:
            wrong = wrong or order_fault([at.key, *keys] if at.key else keys, self._prefix)
            names = [at.folder, *folders] if at.folder else folders
            wrong = wrong or order_fault(names, self._prefix)
        if wrong:
            raise StorageError(
                ErrorKind.PROTOCOL, f"a listing of {wrong}", status=timing.status, timing=timing
            )

        self._at = NextPage("", keys[-1] if keys else at.key, folders[-1] if folders else at.folder)
        self.has_wanted = self._wanted != "" and (self._wanted in keys or self._wanted in folders)

    def next_page(self) -> NextPage | None:
        """Where the next page begins, of a page that was checked; None: it was the last.

        Without a token, that is the first page again, which all_pages takes for an error.
        """
        token = unescape(self._token.decode("utf-8", "replace"))
        return self._at._replace(token=token) if self._is_truncated else None

    def _names(self, found: list[bytes]) -> list[str]:
        text = unescape(b"<".join(found).decode("utf-8", "replace"))
        names = text.split("<") if found else []
        return [*map(unquote_plus, names)] if self._is_quoted and _QUOTED(text) else names


class _Tags(NamedTuple):
    """The tags of a listing under its prefix of the namespace, as bytes or patterns."""

    ends: tuple[bytes, bytes]  #: of an entry: an object, or a common prefix
    key: re.Pattern[bytes]
    folder: re.Pattern[bytes]
    quoted: bytes  #: says that names are quoted
    end: bytes  #: of the document
    truncated: bytes  #: says that another page follows
    token: re.Pattern[bytes]  #: of that page


@lru_cache(maxsize=8)
def _tags_of(prefix: bytes) -> _Tags:
    p = re.escape(prefix)
    return _Tags(
        (b"</%bContents>" % prefix, b"</%bCommonPrefixes>" % prefix),
        re.compile(rb"<%bKey>([^<]*)</%bKey>" % (p, p)),
        re.compile(rb"<%bCommonPrefixes>\s*<%bPrefix>([^<]*)</%bPrefix>" % (p, p, p)),
        b"<%bEncodingType>url<" % prefix,
        b"</%bListBucketResult>" % prefix,
        b"<%bIsTruncated>true<" % prefix,
        re.compile(rb"<%bNextContinuationToken>([^<]+)<" % p),
    )


class Xml(XmlReader):
    """A response: the values below the root, and at most ``limit`` records. Only ``check`` raises.

    :param token: as of ``error_of``.
    """

    def __init__(self, limit: int) -> None:
        # What has a single record is no listing.
        super().__init__(_RECORDS, _VALUES, RESPONSE_MAX if limit == 1 else LISTING_MAX)
        self.records: list[tuple[str, dict[str, str]]] = []
        self._values: dict[str, str] = {}  #: of the present record
        self._limit = limit

    def value(self, name: str, depth: int, text: str) -> None:
        if depth == 1:
            self._values.setdefault(name, text)

    def take(self, name: str) -> None:
        if len(self.records) >= self._limit:
            raise ValueError("more than requested")
        self.records.append((name, self._values))
        self._values = {}

    def check(self, root: str, timing: Timing | None = None, other_root: str = "") -> Xml:
        """Itself, after all data was fed.

        :param other_root: a name that some server gives its root instead.
        :param timing: of the response, for the error.
        :raises StorageError: STATUS: it is an error with status 200; PROTOCOL: it is
            not valid, longer than requested, or of another kind.
        """
        is_valid = self._is_valid()
        if self.root == "Error" and is_valid:
            code = self.values.get("Code", "")
            text = _shown(f"{code}: {self.values.get('Message', '')}")
            raise StorageError(
                ErrorKind.STATUS,
                f"the store returned 200 with an error: {text}",
                status=200,
                timing=timing,
                rate_limited=code == "SlowDown",
            )
        if not is_valid or self.root not in (root, other_root or root):
            other = (
                f", and this is {printable(self.root[:40])}" if self.root not in ("", root) else ""
            )
            raise malformed(f"{root} in XML{other}", timing)
        return self

    def of(self, kind: str) -> list[dict[str, str]]:
        """The records of one kind, in order."""
        return [record for name, record in self.records if name == kind]


def check_listing(listing: Xml) -> Xml:
    """A page of a listing, which ListObjectsV2 has made.

    :raises StorageError: as ``Xml.check``; also for a page of version 1, which is what a store
        without version 2 returns: it knows none of the markers that continue a listing.
    """
    listing.check("ListBucketResult")
    if "KeyCount" not in listing.values and "Marker" in listing.values:
        raise StorageError(
            ErrorKind.PROTOCOL,
            "the store has no ListObjectsV2: it returned a listing of version 1, which ssbench does"
            " not continue",
        )
    return listing


def check_buckets(listing: Xml) -> Xml:
    """A list of buckets. Some stores give its root another name.

    :raises StorageError: as ``Xml.check``.
    """
    return listing.check(listing.root if "Buckets" in listing.values else BUCKETS_ROOT)


def name_in(listing: Xml, value: str) -> str:
    """A name of a listing that was requested with ``encoding-type=url``."""
    return unquote_plus(value) if listing.values.get("EncodingType") == "url" else value


def is_truncated(listing: Xml) -> bool:
    """Whether the listing goes on with another page."""
    return listing.values.get("IsTruncated", "").strip().lower() == "true"


def size_of(record: Mapping[str, str]) -> int:
    """The size of a listed object in bytes.

    :raises StorageError: PROTOCOL: it is no number.
    """
    size = record.get("Size", "0")
    if not (size.isascii() and size.isdigit() and len(size) < 19):
        raise malformed("an object's entry")
    return int(size)


def time_of(text: str) -> float:
    """The Unix time of a time in a listing; 0 if it is none since 1970."""
    try:
        return max(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp(), 0.0)
    except (ValueError, OverflowError):
        return 0.0


def _xml_text(text: str) -> str:
    """Text of an element that is read as it is: a CR itself would be read as LF, and so the key as
    that of another object (XML 1.0, 2.11)."""
    return escape(text, {"\r": "&#13;"})


def complete_request(parts: Iterable[tuple[str, str]]) -> bytes:
    """The body that makes an object of its parts.

    :param parts: of each the ETag, and further elements.
    """
    elements = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{_xml_text(etag)}</ETag>{more}</Part>"
        for number, (etag, more) in enumerate(parts, start=1)
    )
    root = "CompleteMultipartUpload"
    return f'<{root} xmlns="{NAMESPACE}">{elements}</{root}>'.encode()


def delete_request(keys: Sequence[str], versions: Sequence[str] = ()) -> bytes:
    """The body of a multi-delete whose response lists failures only.

    :param versions: of each key the id of a version; (): its newest, which leaves a delete marker.
    """
    ids = [f"<VersionId>{_xml_text(each)}</VersionId>" for each in versions] or [""] * len(keys)
    objects = "".join(
        f"<Object><Key>{_xml_text(key)}</Key>{version}</Object>"
        for key, version in zip(keys, ids, strict=True)
    )
    return f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()


def tags_of(name: str, count: int, length: int) -> dict[str, str]:
    """The tags of an object. A shorter value is the beginning of a longer one, so that the tags
    that a run reads can be of one with other values of its keys.

    :param length: characters of a value.
    """
    found = {}
    for number in range(count):
        text = sha256(f"{name} {number}".encode()).hexdigest()
        found[f"{_TAG}{number}"] = (text * (length // len(text) + 1))[:length]
    return found


def tagging_request(tags: Mapping[str, str]) -> bytes:
    """The body that sets all tags of an object."""
    each = "".join(
        f"<Tag><Key>{_xml_text(key)}</Key><Value>{_xml_text(value)}</Value></Tag>"
        for key, value in tags.items()
    )
    return f'<Tagging xmlns="{NAMESPACE}"><TagSet>{each}</TagSet></Tagging>'.encode()


def foreign_tag(name: str, tags: Mapping[str, str]) -> str:
    """A tag with a value that no PUT_TAGS has given this object, as text; "" if there is none. Tags
    of other keys are not ours to judge."""
    own = {key: value for key, value in tags.items() if key.startswith(_TAG)}
    longest = max(map(len, own.values()), default=0)
    wanted = tags_of(name, TAGS_MAX, longest)
    wrong = [key for key, value in own.items() if not wanted.get(key, "-").startswith(value)]
    return f"{printable(wrong[0])}={printable(own[wrong[0]])[:_SHOWN]}" if wrong else ""


_STATUSES = {
    "AccessDenied": 403, "InternalError": 500, "NoSuchBucket": 404, "NoSuchKey": 404,
    "SlowDown": 503, "ServiceUnavailable": 503,
}  # fmt: skip


def delete_failures(response: Xml, timing: Timing) -> dict[str, int]:
    """Key -> status of the objects that a multi-delete left; those that don't exist are gone.

    :raises StorageError: as ``Xml.check``.
    """
    failures = {}
    for record in response.check("DeleteResult", timing).of("Error"):
        if record.get("Code") != "NoSuchKey":
            failures[record.get("Key", "")] = status_of(record.get("Code", ""))
    return failures


def status_of(code: str) -> int:
    """The status that a DELETE of the object would have, by the code of a multi-delete's error."""
    return _STATUSES.get(code, 500)


def malformed(what: str, timing: Timing | None = None) -> StorageError:
    detail = f"the store's response is invalid: expected {what}"
    return StorageError(
        ErrorKind.PROTOCOL, detail, status=timing.status if timing else 0, timing=timing
    )
