"""What an HTTP/1.1 answer says, from its bytes. Pure.

Two readers of a head: ``fast_head`` knows the form that nearly all answers have and looks at
nothing that isn't needed; where it gives None, ``parse_head`` reads all of it. Whatever the first
accepts, the second reads the same; a property test holds them to that.
"""

from __future__ import annotations

from typing import NamedTuple

from ssbench.core.errors import SsbenchError

MAX_HEAD = 65536  #: bytes of status line and headers; more is refused
_MAX_CHUNK_LINE = 1024  #: a chunk's size and its extensions
_MAX_LENGTH_DIGITS = 18

CHUNKED = -1  #: Head.length: the body comes in chunks
UNTIL_CLOSE = -2  #: Head.length: the body ends where the connection does

_ID_HEADERS = ("x-trans-id", "x-openstack-request-id", "x-amz-request-id")
_ID_NEEDLES = tuple(f"\r\n{name}:".encode() for name in _ID_HEADERS)
_SPACE = b" \t"
_BODILESS = (204, 304)


class BadAnswer(SsbenchError):
    """The bytes are no valid HTTP answer; the message says why."""


class Head(NamedTuple):
    """What the engine must know of an answer's head."""

    status: int
    length: int  #: bytes of the body, or CHUNKED, or UNTIL_CLOSE
    keep: bool  #: the connection may serve another request
    transaction_id: bytes
    end: int  #: where in the bytes the body begins


#: b"200 " -> 200, for final statuses.
_STATUSES = {b"%d " % status: status for status in range(200, 600) if status != 304}


def fast_head(data: bytearray, count: int) -> Head | None:
    """The head in ``data[:count]``; None where it isn't complete or not of the usual form.

    The usual form: HTTP/1.1, a final status, one Content-Length (or a 204), nothing in chunks,
    and no word of closing the connection. Not for answers to HEAD.
    """
    end = data.find(b"\r\n\r\n", 0, count)
    if end < 0 or end > MAX_HEAD - 4 or not data.startswith(b"HTTP/1.1 "):
        return None
    low = data[: end + 4].lower()
    status = _STATUSES.get(bytes(low[9:13]))
    if status is None or low.find(b"\r\ntransfer-encoding:") >= 0:
        return None
    at = low.find(b"\r\nconnection:")
    if at >= 0 and not _keeps_alive(low, at + 13):
        return None
    length = 0
    at = low.find(b"\r\ncontent-length:")
    if at >= 0:
        at += 17
        stop = low.find(b"\r\n", at)
        digits = low[at:stop].strip(_SPACE)
        # A value that goes on in the next line, or a second one, is for the other reader.
        if (
            not digits.isdigit()
            or len(digits) > _MAX_LENGTH_DIGITS
            or low[stop + 2] in _SPACE
            or low.find(b"\r\ncontent-length:", stop) >= 0
        ):
            return None
        length = int(digits)
    elif status != 204:
        return None
    for name in _ID_NEEDLES:
        at = low.find(name)
        if at >= 0:
            at += len(name)
            stop = low.find(b"\r\n", at)
            if low[stop + 2] in _SPACE:
                return None
            identifier = bytes(data[at:stop]).strip(_SPACE)
            return _head(Head, (status, 0 if status == 204 else length, True, identifier, end + 4))
    return _head(Head, (status, 0 if status == 204 else length, True, b"", end + 4))


_head = tuple.__new__  # Head(...) without its detour through keyword arguments


def _keeps_alive(low: bytearray, at: int) -> bool:
    """Is the Connection header whose value begins there a sole ``keep-alive``?"""
    stop = low.find(b"\r\n", at)
    return (
        low[at:stop].strip(_SPACE) == b"keep-alive"
        and low[stop + 2] not in _SPACE
        and low.find(b"\r\nconnection:", stop) < 0
    )


def parse_head(data: bytes, *, bodiless: bool = False) -> tuple[Head, dict[str, str]]:
    """The head that ``data`` begins with, blank line included, and its headers.

    Header names are in lower case; of a repeated header the values are joined by ", ". Lines
    that are no header are passed over, as the field's clients do.

    :param bodiless: the request was HEAD: whatever the headers say, there is no body.
    :raises BadAnswer: where it isn't HTTP, or the body's length can't be told.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        raise BadAnswer("headers without end")
    status_line, *lines = data[:end].split(b"\r\n")
    minor, status = _status_line(status_line)
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
            identifier.encode("latin-1"),
            end + 4,
        ),
        {name: ", ".join(values) for name, values in fields.items()},
    )


def _status_line(line: bytes) -> tuple[int, int]:
    """(minor version, status) of ``HTTP/1.1 200 OK``."""
    shown = line[:40].decode("ascii", "replace")
    if not (line.startswith((b"HTTP/1.1 ", b"HTTP/1.0 "))):
        raise BadAnswer(f"not an HTTP/1.1 answer: {shown!r}")
    code = line[9:12]
    if not code.isdigit() or line[12:13] not in (b"", b" ") or not 100 <= int(code) <= 599:
        raise BadAnswer(f"no valid status: {shown!r}")
    return line[7] - ord("0"), int(code)


def _fields(lines: list[bytes]) -> dict[str, list[str]]:
    """Header name -> values; a line that begins with a space goes on with the one before."""
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
            raise BadAnswer(f"unknown transfer encoding {', '.join(codings)[:40]!r}")
        return CHUNKED
    given = fields.get("content-length")
    if given is None:
        return UNTIL_CLOSE
    values = {value.strip() for value in ",".join(given).split(",")}
    value = values.pop()
    if values:
        raise BadAnswer("Content-Length twice, with different values")
    if not (value.isascii() and value.isdigit() and len(value) <= _MAX_LENGTH_DIGITS):
        raise BadAnswer(f"Content-Length is no number: {value[:40]!r}")
    return int(value)


class ChunkedBody:
    """Takes a chunked body in any pieces; ``done`` once it is complete. Holds no data.

    Trailers are read and forgotten.
    """

    def __init__(self) -> None:
        self.done = False
        self.rest = 0  #: bytes fed behind the end of the body
        self._left = 0  #: of the current chunk
        self._line: bytearray | None = bytearray()  #: None while in a chunk's data
        self._expect = self._on_size  #: what takes the next whole line
        self._trailers = 0

    def feed(self, data: memoryview) -> list[memoryview]:
        """The parts of ``data`` that are body.

        :raises BadAnswer: where it isn't chunked coding.
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
        """Add to the current line, at most up to its end; gives the bytes used."""
        assert self._line is not None
        window = bytes(data[at : at + _MAX_CHUNK_LINE])
        end = window.find(b"\n") + 1
        used = end or len(window)
        self._line += window[:used]
        if len(self._line) > _MAX_CHUNK_LINE:
            raise BadAnswer("a chunk's head is too long")
        if end:
            line = bytes(self._line)
            if not line.endswith(b"\r\n"):
                raise BadAnswer("a chunk's head doesn't end in CRLF")
            self._line = bytearray()
            self._expect(line[:-2])
        return used

    def _on_size(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip(_SPACE)
        if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
            raise BadAnswer(f"no chunk size: {digits[:20].decode('ascii', 'replace')!r}")
        self._left = int(digits, 16)
        if self._left:
            self._line = None
        else:
            self._expect = self._on_trailer

    def _on_data_end(self, line: bytes) -> None:
        if line:
            raise BadAnswer("a chunk is longer than its size says")
        self._expect = self._on_size

    def _on_trailer(self, line: bytes) -> None:
        self._trailers += len(line)
        if self._trailers > MAX_HEAD:
            raise BadAnswer("trailers without end")
        self.done = not line
