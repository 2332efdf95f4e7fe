"""Parsing of S3's XML responses, treated as untrusted input. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import unescape
from typing import NamedTuple
from urllib.parse import unquote_plus
from xml.parsers import expat  # nosec B406 # see XmlReader
from xml.sax.saxutils import escape  # nosec B406 # only writes

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.text import printable
from ssbench.storage.httpparse import masked
from ssbench.storage.xmlreader import XmlReader

_DEPTH_MAX = 16
#: Elements that hold a record, below the root.
_RECORDS = frozenset({"Contents", "CommonPrefixes", "Bucket", "Error", "Deleted", "Upload", "Part"})
#: The marker object of a container: it says that ssbench made it. No object of ours has this name.
MARK = ".ssbench"
#: The end of an entry of a listing, or (group 1) the name of a mark.
_LISTED = re.compile(
    rb"</(?:Contents|CommonPrefixes)>|((?:<Key>|/|%%2F)%s</Key>)" % re.escape(MARK).encode()
)
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_REST_MAX = 256  #: bytes; longer than any tag
_ERROR_FIELDS = ("Code", "Message", "Region", "Endpoint")
_SHOWN = 200  #: characters of an error's message
_SIGNATURE = re.compile(r"(Signature=)\w+", re.IGNORECASE)


class S3Error(NamedTuple):
    """An error response; "" for what it does not say."""

    code: str = ""
    message: str = ""
    region: str = ""  #: of the bucket, if the request went to another one
    endpoint: str = ""  #: where the bucket is served

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.code, self.message)))


def error_of(body: bytes, token: str = "") -> S3Error:  # nosec B107 # "": no token
    """The error in the beginning of a response body; an empty one if there is none.

    :param token: of the session: hidden, as any signature, where the body repeats it.
    """
    text = body.decode("utf-8", "replace")
    values = []
    for name in _ERROR_FIELDS:
        found = re.search(f"<{name}>([^<]*)", text)
        values.append(_shown(unescape(found[1]), token) if found else "")
    return S3Error(*values)


def _shown(text: str, token: str) -> str:
    """What a user may see of a server's text."""
    text = _SIGNATURE.sub(r"\1***", masked(" ".join(text.split()), token))
    return printable(text)[:_SHOWN]


class ItemCounter:
    """Counts the entries of a listing as it arrives, without marks. It parses none of them: 1,000
    would cost a hundred times the request. Buffers less than a KiB."""

    def __init__(self) -> None:
        self.items = 0
        self._rest = b""  #: what may be the beginning of a tag
        self._begun = False

    def feed(self, data: memoryview) -> None:
        """Count in more data."""
        text = self._rest + bytes(data)
        self._begun = self._begun or b"<ListBucketResult" in text
        end = 0
        for found in _LISTED.finditer(text):
            self.items += -1 if found[1] else 1
            end = found.end()
        self._rest = text[max(end, len(text) - _REST_MAX) :]

    def check(self, limit: int, timing: Timing) -> None:
        """Check what was counted, after all data was fed.

        :raises StorageError: PROTOCOL: it is no complete listing, or longer than requested.
        """
        complete = self._rest.rstrip().endswith(b"</ListBucketResult>")
        if not (self._begun and complete):
            raise malformed("a listing", timing)
        if self.items > limit:
            raise StorageError(
                ErrorKind.PROTOCOL,
                f"a listing of {self.items} entries, where {limit} were requested",
                status=timing.status,
                timing=timing,
            )


class Xml(XmlReader):
    """Incremental parser of a response: the values below the root, and its records.

    Buffers at most one record, and keeps at most ``limit`` of them. Only ``check`` raises.

    :param token: as of ``error_of``.
    """

    _TEXT_MAX = 8192  #: a name of 1,024 bytes, quoted

    def __init__(self, limit: int, token: str = "") -> None:  # nosec B107 # "": no token
        super().__init__(expat.ParserCreate("UTF-8"))  # whatever the document says
        self.root = ""
        self.values: dict[str, str] = {}
        self.records: list[tuple[str, dict[str, str]]] = []
        self._limit, self._token = limit, token
        self._path: list[str] = []
        self._record: dict[str, str] | None = None
        self._parser.CharacterDataHandler = self._add_text

    def check(self, root: str, timing: Timing | None = None) -> Xml:
        """Itself, after all data was fed.

        :param timing: of the response, for the error.
        :raises StorageError: STATUS: it is an error in spite of a status of 200; PROTOCOL: it is
            not valid, longer than requested, or of another kind.
        """
        is_valid = self._is_valid()
        if self.root == "Error" and is_valid:
            code = self.values.get("Code", "")
            text = _shown(f"{code}: {self.values.get('Message', '')}", self._token)
            raise StorageError(
                ErrorKind.STATUS,
                f"the store returned 200 with an error: {text}",
                status=200,
                timing=timing,
                rate_limited=code == "SlowDown",
            )
        if not is_valid or self.root != root:
            raise malformed(f"{root} in XML", timing)
        return self

    def of(self, kind: str) -> list[dict[str, str]]:
        """The records of one kind, in order."""
        return [record for name, record in self.records if name == kind]

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        name = name.rpartition(":")[2]
        if not self._path:
            self.root = name
        elif name in _RECORDS and self._record is None:
            self._record = {}
            if len(self.records) >= self._limit:
                raise ValueError("more than requested")
        self._path.append(name)
        if len(self._path) > _DEPTH_MAX:
            raise ValueError("too deep")
        self._begin_text()

    def _end(self, name: str) -> None:
        name = self._path.pop()
        if self._record is None:
            if len(self._path) == 1:
                self.values[name] = "".join(self._text)
        elif self._path[-1] in _RECORDS:
            self._record.setdefault(name, "".join(self._text))
        elif name in _RECORDS:
            self.records.append((name, self._record))
            self._record = None
        self._text.clear()


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


def complete_request(etags: Sequence[str]) -> bytes:
    """The body that makes an object of its parts."""
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
        for number, etag in enumerate(etags, start=1)
    )
    return (
        f'<CompleteMultipartUpload xmlns="{_NAMESPACE}">{parts}</CompleteMultipartUpload>'.encode()
    )


def delete_request(keys: Sequence[str]) -> bytes:
    """The body of a multi-delete whose response lists failures only."""
    objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    return f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()


#: Codes of a multi-delete's errors -> the status that a DELETE of the object would have.
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
            failures[record.get("Key", "")] = _STATUSES.get(record.get("Code", ""), 500)
    return failures


def malformed(what: str, timing: Timing | None = None) -> StorageError:
    """The error of a response that can't be used."""
    detail = f"the store's response is not {what} of S3's form"
    return StorageError(
        ErrorKind.PROTOCOL, detail, status=timing.status if timing else 0, timing=timing
    )
