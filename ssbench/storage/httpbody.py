"""What takes the body of a response: collectors, and limits on its length."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.storage.httpparse import BadResponse, Head, HeadPatternCache

RESPONSE_MAX = 8 * 1024 * 1024  #: bytes of a response body that is kept
MAX_ERROR_BODY = 1024 * 1024  #: bytes; any response may have a body this long (an error page, say)


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

    def add(self, part: memoryview) -> None:
        if len(self.body) + len(part) > self.limit:
            raise BodyTooLong(f"a body of more than {self.limit} bytes")
        self.body += part


#: For a request by HEAD whose response headers are not needed: takes the fast path.
HEAD_ONLY = Collector(0, bodiless=True)


class HeaderCollector(Collector):
    """Keeps a response's headers; the body is discarded."""

    discards = True


_CONTENT_RANGES = re.compile(rb"\r\ncontent-range:([^\r]*)", re.IGNORECASE)


class RangeCollector(HeaderCollector):
    """For a request of a range: takes the fast path, and keeps Content-Range of the headers.

    ``patterns`` must be set before ``read_head``.
    """

    patterns: HeadPatternCache

    def read_head(self, data: bytearray, count: int) -> Head | None:
        """As HeadPatternCache.read."""
        head = self.patterns.read(data, count)
        if head is not None:
            found = _CONTENT_RANGES.findall(data, 0, head.end)
            if len(found) != 1:
                return None  # parse_head has rules for several
            self.headers = {"content-range": found[0].strip(b" \t").decode("latin-1")}
        return head


class StreamingCollector(Collector):
    """A Collector that passes the body on as it arrives, and keeps none of it."""

    def __init__(self, limit: int, feed: Callable[[memoryview], None]) -> None:
        super().__init__(limit)
        self._feed = feed
        self._passed = 0

    def add(self, part: memoryview) -> None:
        self._passed += len(part)
        if self._passed > self.limit:
            raise BodyTooLong(f"a body of more than {self.limit} bytes")
        self._feed(part)


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


class BodyTooLong(BadResponse):
    """The body is longer than the response to this request can be."""


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
        wrong = f"status {timing.status} and {timing.bytes_moved} bytes, not 206"
    elif not found:
        wrong = f"Content-Range {stated[:80]!r}" if stated else "no Content-Range"
    elif (int(found[1]), int(found[2])) != (offset, offset + length - 1):
        wrong = stated
    elif timing.bytes_moved < length:
        kind, wrong = ErrorKind.TRUNCATED, f"{timing.bytes_moved} bytes"
    elif timing.bytes_moved > length:
        wrong = f"{timing.bytes_moved} bytes"
    else:
        return
    detail = f"range read of {asked}: the store returned {wrong}"
    raise StorageError(kind, detail, status=timing.status, timing=timing)


def check_length(length: int, longest: int) -> None:
    """Reject a body that is longer than the longest possible object and any error page.

    :raises BodyTooLong: it is.
    """
    most = max(longest, MAX_ERROR_BODY)
    if length > most:
        raise BodyTooLong(f"a body of more than {most} bytes")
