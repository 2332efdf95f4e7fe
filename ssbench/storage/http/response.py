"""HTTP/1.1 responses: parsing of heads, collectors of bodies (XML included), limits. Pure.

There are two parsers of a response head: ``parse_head`` parses any; ``HeadPatternCache`` only those
that match a head parsed before. A property test checks that whatever the cache accepts,
``parse_head`` parses to the same result.

h11 was measured as the parser behind the cache, and kept out. It rejects the whole response for a
header name in UTF-8 (Swift sends back such metadata) or a line without colon; takes 40 µs for a
response with ten headers where ``parse_head`` takes 8, which --verify pays per read; and 5.7 s for
1 MiB in one-byte chunks, so the bounds below would stay. Bodies of known length can't pass through
it, because they are discarded in the kernel.
"""

from __future__ import annotations

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timezone
from html import unescape
from typing import NamedTuple
from xml.parsers import expat  # nosec B406 # declarations, and with them entities, are refused

from ssbench.core.errors import SsbenchError, StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.text import plural, printable, shortened

MAX_HEAD = 65536  #: bytes of status line and headers; longer heads are rejected
_MAX_CHUNK_LINE = 1024  #: bytes of a chunk's size and extensions
#: Beyond this number of chunks, their mean size must reach this many bytes: 1 MiB in one-byte
#: chunks would take seconds to parse.
_MANY_CHUNKS, _MIN_CHUNK_MEAN = 4096, 64
_MAX_LENGTH_DIGITS = 18
_MAX_ID = 256  #: bytes kept of a transaction id, which goes into results and stat files

RESPONSE_MAX = 8 * 1024 * 1024  #: bytes of a response body that is kept
LISTING_MAX = 64 * 1024 * 1024  #: bytes of a body that is parsed as it arrives
MAX_ERROR_BODY = 1024 * 1024  #: bytes; any response may have a body this long (an error page, say)

CHUNKED = -1  #: Head.length: chunked transfer coding
UNTIL_CLOSE = -2  #: Head.length: the body ends when the connection is closed

_ID_HEADERS = ("x-trans-id", "x-openstack-request-id", "x-amz-request-id")
_ID_NAMES = tuple(name.encode() for name in _ID_HEADERS)
_SPACE = b" \t"
_BODILESS = (204, 304)
_MAX_ERROR_LINE = 120  #: characters shown of an error's body
_TAG = re.compile(r"<[/!?]?[A-Za-z][^<>]*>|<!--[^<>]*>")


class BadResponse(SsbenchError):
    """The bytes are not a valid HTTP response; the message says why."""


class BodyTooLong(BadResponse):
    """The body is longer than the response to this request can be."""


class Head(NamedTuple):
    """The fields of a response head that a connection needs."""

    status: int
    length: int  #: bytes of the body, or CHUNKED, or UNTIL_CLOSE
    keep: bool  #: the connection may serve another request
    transaction_id: bytes
    end: int  #: offset of the body


class HeadPatternCache:
    """Parses heads that match a learned pattern, ten times as fast as ``parse_head``.

    A server's responses look alike: the same headers in the same order. ``parse_head`` parses the
    first one, and a pattern made from it parses the others. The pattern matches no head with other
    headers, or in another order or spelling, so no significant header goes unnoticed.

    :param bodiless: for responses to HEAD, which have no body whatever Content-Length says.
    """

    def __init__(self, *, bodiless: bool = False) -> None:
        self._bodiless = bodiless
        self._known: list[tuple[Callable[..., re.Match[bytes] | None], int, int, int, int]] = []
        self._patterns: set[bytes] = set()

    def read(self, data: bytearray, count: int) -> Head | None:
        """The head at the start of ``data[:count]``; None if no pattern matches."""
        for match, lines, status, length_group, id_group in self._known:
            found = match(data, 0, count)
            if found is not None:
                end = found.end()
                if data.count(b"\n", 0, end) != lines or data.find(b"\0", 0, end) >= 0:
                    return None  # a stray one: parse_head names it
                length = int(found[length_group]) if length_group else 0
                identifier = found[id_group].strip(_SPACE) if id_group else b""
                return _head(Head, (status, length, True, identifier, end))
        return None

    def learn(self, data: bytes) -> None:
        """Add the pattern of a head that ``parse_head`` accepted, if it has the usual form.

        The usual form: HTTP/1.1, one Content-Length (or a status without body), no chunked coding,
        no folded lines, and no ``Connection: close``.
        """
        if len(self._known) >= _MAX_PATTERNS:
            return
        head, _ = parse_head(data, bodiless=self._bodiless)
        lines = data[: head.end - 4].split(b"\r\n")
        if (
            head.end > _MAX_PATTERN_HEAD
            or head.status < 200
            or head.length < 0
            or not head.keep
            or not lines[0].startswith(b"HTTP/1.1 ")
        ):
            return
        names = [line.partition(b":")[0].lower() for line in lines[1:]]
        if not all(map(_PLAIN_NAME, names)) or b"transfer-encoding" in names:
            return
        bodiless = self._bodiless or head.status in _BODILESS
        if not bodiless and names.count(b"content-length") != 1:
            return
        self._add(lines, names, head.status, b"" if bodiless else b"content-length")

    def _add(self, lines: list[bytes], names: list[bytes], status: int, length_name: bytes) -> None:
        """Build the pattern; its groups are the body's length and the transaction id."""
        id_name = next((name for name in _ID_NAMES if name in names), b"")
        groups = {length_name: 0, id_name: 0}
        parts = [rb"HTTP/1\.1 %d(?: %b)?\r\n" % (status, _ANY_VALUE)]
        for line, name in zip(lines[1:], names, strict=True):
            value = _ANY_VALUE
            if name in groups and not groups[name]:
                groups[name] = 1 + sum(map(bool, groups.values()))
                value = _LENGTH_VALUE if name == length_name else _ID_VALUE
            elif name == b"connection":
                value = re.escape(line[len(name) + 1 :])
            parts.append(re.escape(line[: len(name)]) + b":" + value + rb"\r\n")
        pattern = b"".join(parts) + rb"\r\n"
        if pattern not in self._patterns:
            self._patterns.add(pattern)
            match = re.compile(pattern).match
            groups_found = groups[length_name], groups[id_name]
            self._known.append((match, len(lines) + 1, status, *groups_found))


_MAX_PATTERNS = 32  #: further heads are left to parse_head
_MAX_PATTERN_HEAD = 4096  #: bytes of the longest head that gets a pattern
_PLAIN_NAME = re.compile(rb"[a-z0-9_-]+\Z").match
_ANY_VALUE = rb"[^\r]*"  # a class of several characters takes five times as long
_LENGTH_VALUE = rb"[ \t]*([0-9]{1,%d})[ \t]*" % _MAX_LENGTH_DIGITS
_ID_VALUE = rb"([^\r]{0,%d})" % _MAX_ID
_head = tuple.__new__  # Head(...) without the cost of keyword arguments


def parse_head(data: bytes, *, bodiless: bool = False) -> tuple[Head, dict[str, str]]:
    """Parse the head at the start of ``data``; returns it with its headers.

    Header names are in lower case; the values of a repeated header are joined by ", ". Lines
    that are not headers are ignored, as in other HTTP clients.

    :param bodiless: the request was HEAD: whatever the headers say, there is no body.
    :raises BadResponse: the data isn't HTTP, or the body's length is invalid.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        raise BadResponse("incomplete headers")
    status_line, *lines = data[:end].split(b"\r\n")
    minor, status = _status_line(status_line)
    # Some values are sent back, where they would end the header line (RFC 9110, 5.5).
    ends = {data.count(b"\r", 0, end), data.count(b"\n", 0, end)}
    if ends != {len(lines)} or data.find(b"\0", 0, end) >= 0:
        raise BadResponse("headers with a stray CR, LF or NUL")
    fields = _fields(lines)
    tokens = ",".join(fields.get("connection", ())).lower().replace(" ", "").split(",")
    keep = "close" not in tokens and (minor >= 1 or "keep-alive" in tokens)
    bodiless = bodiless or status in _BODILESS or status < 200
    length = 0 if bodiless else _body_length(fields)
    identifier = next((fields[name][0] for name in _ID_HEADERS if name in fields), "")
    return (
        Head(
            status,
            length,
            keep and length != UNTIL_CLOSE,
            identifier.encode("latin-1")[:_MAX_ID],
            end + 4,
        ),
        {name: ", ".join(values) for name, values in fields.items()},
    )


def _status_line(line: bytes) -> tuple[int, int]:
    """(minor version, status) of ``HTTP/1.1 200 OK``."""
    shown = line[:40].decode("ascii", "replace")
    if not (line.startswith((b"HTTP/1.1 ", b"HTTP/1.0 "))):
        raise BadResponse(f"not an HTTP/1.1 response: {shown!r}")
    code = line[9:12]
    if not code.isdigit() or line[12:13] not in (b"", b" ") or not 100 <= int(code) <= 599:
        raise BadResponse(f"no valid status: {shown!r}")
    return line[7] - ord("0"), int(code)


def _fields(lines: list[bytes]) -> dict[str, list[str]]:
    """Header name -> values; a line that starts with a space or tab continues the previous one."""
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            if values:
                values[-1] += " " + line.strip(_SPACE).decode("latin-1")
            continue
        name, colon, value = line.partition(b":")
        values = fields.setdefault(name.lower().decode("latin-1"), []) if colon else []
        values.append(value.strip(_SPACE).decode("latin-1"))
    return fields


def _body_length(fields: dict[str, list[str]]) -> int:
    codings = fields.get("transfer-encoding")
    if codings is not None:
        if [coding.strip().lower() for coding in codings] != ["chunked"]:
            raise BadResponse(f"unknown transfer encoding {', '.join(codings)[:40]!r}")
        return CHUNKED
    given = fields.get("content-length")
    if given is None:
        return UNTIL_CLOSE
    values = {value.strip() for value in ",".join(given).split(",")}
    value = values.pop()
    if values:
        raise BadResponse("Content-Length twice, with different values")
    if not (value.isascii() and value.isdigit() and len(value) <= _MAX_LENGTH_DIGITS):
        raise BadResponse(f"Content-Length is no number: {value[:40]!r}")
    return int(value)


class ChunkedBody:
    """Incremental parser of chunked transfer coding. Keeps no body data.

    Trailers are parsed and ignored.
    """

    def __init__(self) -> None:
        self.done = False
        self.rest = 0  #: bytes fed after the end of the body
        self._left = 0  #: bytes left in the current chunk
        self._line: bytearray | None = bytearray()  #: the current line; None within a chunk's data
        self._expect = self._on_size  #: handles the next complete line
        self._trailers = 0
        self._chunks = self._announced = 0

    def feed(self, data: memoryview) -> list[memoryview]:
        """Returns the parts of ``data`` that are body.

        :raises BadResponse: the data isn't valid chunked coding.
        """
        parts = []
        at = 0
        while at < len(data) and not self.done:
            if self._line is None:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                if not self._left:
                    self._line, self._expect = bytearray(), self._on_data_end
            else:
                at += self._take_line(data, at)
        self.rest += len(data) - at
        return parts

    def _take_line(self, data: memoryview, at: int) -> int:
        """Append to the current line, up to its end; returns the number of bytes consumed."""
        assert self._line is not None  # nosec B101 # for the type checker
        window = bytes(data[at : at + _MAX_CHUNK_LINE])
        end = window.find(b"\n") + 1
        used = end or len(window)
        self._line += window[:used]
        if len(self._line) > _MAX_CHUNK_LINE:
            raise BadResponse("a chunk's size line is too long")
        if end:
            line = bytes(self._line)
            if not line.endswith(b"\r\n"):
                raise BadResponse("a chunk's size line doesn't end in CRLF")
            self._line = bytearray()
            self._expect(line[:-2])
        return used

    def _on_size(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip(_SPACE)
        if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
            raise BadResponse(f"no chunk size: {digits[:20].decode('ascii', 'replace')!r}")
        self._left = int(digits, 16)
        if not self._left:
            self._expect = self._on_trailer
            return
        self._line = None
        self._chunks += 1
        self._announced += self._left
        if self._chunks > _MANY_CHUNKS and self._announced < _MIN_CHUNK_MEAN * self._chunks:
            raise BadResponse(f"{self._chunks} chunks of a few bytes each")

    def _on_data_end(self, line: bytes) -> None:
        if line:
            raise BadResponse("a chunk is longer than its size says")
        self._expect = self._on_size

    def _on_trailer(self, line: bytes) -> None:
        self._trailers += len(line)
        if self._trailers > MAX_HEAD:
            raise BadResponse(f"trailers of more than {MAX_HEAD} bytes")
        self.done = not line


# Bodies


class ContentDecoder:
    """Undoes a Content-Encoding that nobody asked for, as some gateways apply, piece by piece: a
    few bytes may stand for gigabytes.

    :param coding: the header's value.
    :raises BadResponse: it is another one than gzip or deflate.
    """

    _PIECE = 65536  #: bytes given at a time

    def __init__(self, coding: str) -> None:
        if coding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
            shown = printable(coding)[:40]
            raise BadResponse(f"a body with Content-Encoding {shown}, which was not requested")
        self._zlib = zlib.decompressobj(_ANY_ZLIB)

    def feed(self, data: bytes | memoryview) -> Iterator[memoryview]:
        """The decoded pieces.

        :raises BadResponse: the data isn't valid.
        """
        try:
            while piece := self._zlib.decompress(data, self._PIECE):
                yield memoryview(piece)
                data = self._zlib.unconsumed_tail
        except zlib.error as error:
            raise BadResponse("the body is not valid gzip") from error
        if self._zlib.unused_data:  # zlib would keep all of them, and copy them each time
            raise BadResponse("the body is not valid gzip: more follows its end")


_ANY_ZLIB = 47  #: wbits of zlib: with a header of gzip or of zlib


def decoded(body: bytes, headers: Mapping[str, str], most: int) -> bytes:
    """A body, or the first ``most`` bytes of it, without the encoding that its headers state.

    :raises BadResponse: it can't be decoded.
    """
    coding = body_coding(headers)
    if coding == "identity":
        return body
    found = bytearray()
    for piece in ContentDecoder(coding).feed(body):
        found += piece
        if len(found) >= most:
            break
    return bytes(found[:most])


def body_coding(headers: Mapping[str, str]) -> str:
    """The encoding of a body; ``identity`` if it has none.

    aws-chunked is one of uploads only: a store that keeps it as metadata of the object, as
    versitygw does, states it of a body that is as it was before.
    """
    stated = (each.strip() for each in headers.get("content-encoding", "").split(","))
    codings = [each for each in stated if each.lower() not in ("", "aws-chunked", "identity")]
    return ", ".join(codings) or "identity"


class Collector:
    """Keeps a response's headers and body, which the hot path discards.

    :param limit: maximum length of the body in bytes.
    :param bodiless: the request is HEAD.
    """

    discards = False  #: keeps the headers only; the body is discarded as on the hot path

    def __init__(self, limit: int = RESPONSE_MAX, *, bodiless: bool = False) -> None:
        self.bodiless = bodiless
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.limit = limit
        self._passed = 0
        self._decoder: ContentDecoder | None = None

    def add(self, part: memoryview) -> None:
        """Take the next part of the body; decoded, if it is encoded."""
        for piece in self._decoded(part) if "content-encoding" in self.headers else (part,):
            self._passed += len(piece)
            if self._passed > self.limit:
                raise BodyTooLong(f"a body of more than {self.limit} bytes")
            self.feed(piece)

    def feed(self, data: memoryview) -> None:
        """Take the next decoded bytes."""
        self.body += data

    def _decoded(self, part: memoryview) -> Iterable[memoryview]:
        coding = body_coding(self.headers)
        if coding == "identity":
            return (part,)
        self._decoder = self._decoder or ContentDecoder(coding)
        return self._decoder.feed(part)


#: For a request by HEAD whose response headers are not needed: takes the fast path.
HEAD_ONLY = Collector(0, bodiless=True)


class HeaderCollector(Collector):
    """Keeps a response's headers; the body is discarded."""

    discards = True


_CONTENT_RANGES = re.compile(rb"\r\ncontent-range:([^\r]*)", re.IGNORECASE)
_ETAGS = re.compile(rb"\r\netag:([^\r]*)", re.IGNORECASE)


class RangeCollector(HeaderCollector):
    """For a request of a range: takes the fast path, and keeps Content-Range of the headers.

    ``patterns`` must be set before ``read_head``.
    """

    patterns: HeadPatternCache

    def read_head(self, data: bytearray, count: int) -> Head | None:
        head = self.patterns.read(data, count)
        if head is not None:
            found = _CONTENT_RANGES.findall(data, 0, head.end)
            if len(found) != 1:
                return None  # parse_head has rules for several
            self.headers = {"content-range": found[0].strip(b" \t").decode("latin-1")}
        return head


class PartCollector(RangeCollector):
    """The same for a part of an object; also keeps ETag."""

    def read_head(self, data: bytearray, count: int) -> Head | None:
        head = super().read_head(data, count)
        if head is not None:
            found = _ETAGS.findall(data, 0, head.end)
            if len(found) > 1:
                return None
            self.headers["etag"] = found[0].strip(b" \t").decode("latin-1") if found else ""
        return head


class BodyPrefix:
    """Keeps the first bytes of a body, and passes the body on.

    :param add: receives each part; None: the parts are not used.
    """

    _LIMIT = 1024  #: bytes

    def __init__(self, add: Callable[[memoryview], None] | None) -> None:
        self.body = bytearray()
        self._add = add

    def add(self, part: memoryview) -> None:
        self.body += part[: self._LIMIT - len(self.body)]
        if self._add is not None:
            self._add(part)


_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)")


def check_range(headers: Mapping[str, str], timing: Timing, offset: int, length: int) -> None:
    """Check that a successful response has these bytes of an object, by status and Content-Range.

    :param headers: of the response, names in lower case.
    :raises StorageError: TRUNCATED: the body is shorter than its range; PROTOCOL: anything else.
    """
    kind, stated = ErrorKind.PROTOCOL, headers.get("content-range", "")
    found = _CONTENT_RANGE.fullmatch(stated)
    asked = f"bytes {offset}-{offset + length - 1}"
    if timing.status != 206:
        wrong = f"status {timing.status} and {plural(timing.bytes_moved, 'byte')}, not 206"
    elif not found:
        wrong = f"Content-Range {stated[:80]!r}" if stated else "no Content-Range"
    elif (int(found[1]), int(found[2])) != (offset, offset + length - 1):
        wrong = stated
    elif timing.bytes_moved < length:
        kind, wrong = ErrorKind.TRUNCATED, plural(timing.bytes_moved, "byte")
    elif timing.bytes_moved > length:
        wrong = plural(timing.bytes_moved, "byte")
    else:
        return
    detail = f"range read of {asked}: the store returned {wrong}"
    raise StorageError(kind, detail, status=timing.status, timing=timing)


def whole_size(headers: Mapping[str, str]) -> int | None:
    """The size of an object of which a response has a range; None: it does not state it."""
    found = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    return int(found[3]) if found and found[3] != "*" else None


def check_length(length: int, longest: int) -> None:
    """Reject a body that is longer than the longest possible object and any error page.

    :raises BodyTooLong: it is.
    """
    most = max(longest, MAX_ERROR_BODY)
    if length > most:
        raise BodyTooLong(f"a body of more than {most} bytes")


# What errors and headers say


def error_line(body: bytes) -> str:
    """The first line of an error's body that has text, without markup; may be ""."""
    text = unescape(_TAG.sub(" ", body.decode("utf-8", "replace")))
    for line in text.splitlines():
        if any(map(str.isalnum, line)):
            shown = printable(" ".join(line.split()))
            return shortened(shown, _MAX_ERROR_LINE)
    return ""


def seconds_ahead(headers: Mapping[str, str], now: float) -> float | None:
    """By how much our clock is ahead of the one in a response; None: the response doesn't say."""
    from email.utils import parsedate_to_datetime  # loads slowly, and no worker needs it

    try:
        date = parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, OverflowError):
        return None
    return now - date.replace(tzinfo=date.tzinfo or timezone.utc).timestamp()


_FEED = 1 << 16  #: bytes of XML that are parsed at a time
_TOKEN_MAX = 1 << 20  #: bytes of a tag, which expat keeps until it is complete
_NAMES_MAX = 1000  #: names of elements, attributes and namespaces, which expat keeps forever
_TEXT_MAX = 16_384  #: characters of one value
_DEPTH_MAX = 32


class XmlReader(Collector, ABC):
    """Base of a parser of XML, which takes the records. An error is kept until all data was fed.

    Document types are refused, and with them all entities but XML's own. Nothing is kept but the
    values below the root, the record that is being parsed, and a limited number of names: a listing
    of millions needs no more memory than a short one.

    :param records: names of the elements that are records, but not within another one.
    :param texts: names of the elements whose text is kept.
    :param has_namespaces: names are ``URI name``; else they have no namespace.
    :param limit: maximum length of the body in bytes.
    """

    def __init__(
        self,
        records: Collection[str],
        texts: Collection[str],
        limit: int = LISTING_MAX,
        *,
        has_namespaces: bool = False,
    ) -> None:
        super().__init__(limit)
        self.root = ""
        self.values: dict[str, str] = {}  #: texts of the elements below the root
        self._records, self._texts, self._has_prefixes = records, texts, not has_namespaces
        self._failed = False
        self._depth = 0
        self._record = 0  #: the depth of the present record; 0: there is none
        self._text: list[str] = []  #: of the current value
        self._length = 0
        self._fed = 0
        # UTF-8, whatever the document says, where no namespace tells names apart.
        self._parser = parser = (
            expat.ParserCreate(namespace_separator=" ")
            if has_namespaces
            else expat.ParserCreate("UTF-8")
        )
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._refuse
        # With any handler, prefixes and URIs are among the interned names.
        parser.StartNamespaceDeclHandler = lambda prefix, uri: None

    @abstractmethod
    def value(self, name: str, depth: int, text: str) -> None:
        """Take an element's text in a record; a ValueError makes the document invalid.

        :param depth: below the record; 1: its child.
        """

    @abstractmethod
    def take(self, name: str) -> None:
        """The record is complete; a ValueError makes the document invalid."""

    def feed(self, data: bytes | memoryview) -> None:
        """Parse more data; data after an error is ignored."""
        for start in range(0, len(data), _FEED):
            self._parse(bytes(data[start : start + _FEED]), last=False)

    def _is_valid(self) -> bool:
        """Whether all data together was a valid document."""
        self._parse(b"", last=True)
        return not self._failed

    def _parse(self, data: bytes, *, last: bool) -> None:
        if self._failed:
            return
        self._fed += len(data)
        try:
            self._parser.Parse(data, last)
            names = self._parser.intern
            self._failed = (
                self._fed - self._parser.CurrentByteIndex > _TOKEN_MAX
                or len(names) > _NAMES_MAX
                or sum(len(name or "") for name in names) > _TOKEN_MAX
            )
        except (expat.ExpatError, LookupError, ValueError):  # LookupError: unknown encoding
            self._failed = True

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth = depth = self._depth + 1
        if self._has_prefixes:
            name = name.rpartition(":")[2]
        if name in self._texts:
            self._text.clear()
            self._length = 0
            self._parser.CharacterDataHandler = self._add_text
        elif not self._record:
            if depth == 1:
                self.root = name
            elif name in self._records:
                self._record = depth
        if depth > _DEPTH_MAX:
            raise ValueError("too deep")

    def _end(self, name: str) -> None:
        depth = self._depth
        self._depth = depth - 1
        if self._has_prefixes:
            name = name.rpartition(":")[2]
        if name in self._texts:
            self._parser.CharacterDataHandler = None
            text = "".join(self._text)
            if self._record:
                self.value(name, depth - self._record, text)
            elif depth == 2:
                self.values[name] = text
        elif depth == self._record:
            self._record = 0
            self.take(name)

    def _add_text(self, text: str) -> None:
        self._length += len(text)
        if self._length > _TEXT_MAX:
            raise ValueError("a value is too long")
        self._text.append(text)

    def _refuse(self, *_: object) -> None:
        raise ValueError("a document type declaration")
