"""Multistatus responses of WebDAV (RFC 4918, 13), parsed as they arrive, as untrusted input. Pure.

Nothing is kept but the response that is being parsed, and a limited number of XML names: a listing
of millions needs no more memory than a short one. Document types are refused, and with them all
entities but XML's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from xml.parsers import expat  # nosec B406 # declarations, and with them entities, are refused

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind

_FEED = 1 << 16  #: bytes that are parsed at a time
_TOKEN_MAX = 1 << 20  #: bytes of a tag, which expat keeps until it is complete
_TEXT_MAX = 16_384  #: characters of one value: a path of 4 KiB, quoted
_DEPTH_MAX = 32
_NAMES_MAX = 1000  #: names of elements, attributes and namespaces, which expat keeps forever
_STATUSES_MAX = 100  #: of one response
_STATUS = re.compile(r"HTTP/\S+ ([1-5][0-9]{2})\b")
_SIZE = re.compile(r"[0-9]{1,18}")
_ROOT, _RESPONSE, _COLLECTION = "DAV: multistatus", "DAV: response", "DAV: collection"
_HREF, _SIZE_NAME, _STATUS_NAME = "DAV: href", "DAV: getcontentlength", "DAV: status"
_TEXTS = frozenset({_HREF, _SIZE_NAME, _STATUS_NAME})


class ResponseCounter:
    """Counts the responses of a multistatus, at a tenth of the cost of parsing them.

    Only ``finish`` raises.
    """

    def __init__(self) -> None:
        self.responses = 0
        self._depth = 0
        self._root = ""
        self._fed = 0
        self._failed = False
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse
        # With any handler, prefixes and URIs are among the interned names.
        self._parser.StartNamespaceDeclHandler = lambda prefix, uri: None

    def feed(self, data: bytes | memoryview) -> None:
        """Parse more data; data after an error is ignored."""
        for start in range(0, len(data), _FEED):
            self._parse(bytes(data[start : start + _FEED]), last=False)

    def finish(self) -> None:
        """Check, after all data was fed, that it is a whole multistatus.

        :raises StorageError: PROTOCOL: it isn't.
        """
        self._parse(b"", last=True)
        if self._failed or self._root != _ROOT:
            raise StorageError(
                ErrorKind.PROTOCOL, "the store's response is not a valid multistatus of WebDAV"
            )

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

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self._root = name
        elif self._depth > _DEPTH_MAX:
            raise ValueError("too deep")

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._depth == 1 and name == _RESPONSE:
            self.responses += 1

    def _refuse(self, *_: object) -> None:
        raise ValueError("a document type declaration")


class Member(NamedTuple):
    """One response: a resource, and how the request went for it."""

    path: str  #: unquoted
    size: int  #: bytes; 0 if not stated
    is_collection: bool
    statuses: tuple[int, ...]  #: of the resource, or of groups of its properties


class Multistatus(ResponseCounter):
    """Parses the responses as well.

    :param take: called with each member; may raise ValueError to reject the whole.
    """

    def __init__(self, take: Callable[[Member], object]) -> None:
        super().__init__()
        self._take = take
        self._path = ""
        self._size = 0
        self._is_collection = False
        self._statuses: tuple[int, ...] = ()
        self._text: list[str] = []
        self._length = 0
        self._parser.buffer_text = True

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        super()._start(name, attributes)
        if name in _TEXTS:
            self._text.clear()
            self._length = 0
            self._parser.CharacterDataHandler = self._add_text
        elif name == _COLLECTION:
            self._is_collection = True

    def _end(self, name: str) -> None:
        super()._end(name)
        if name in _TEXTS:
            self._parser.CharacterDataHandler = None
            self._note(name, "".join(self._text).strip())
        elif name == _RESPONSE and self._depth == 1:
            if not self._path:
                raise ValueError("a response without a path")
            self._take(Member(self._path, self._size, self._is_collection, self._statuses))
            self._path, self._size, self._is_collection, self._statuses = "", 0, False, ()

    def _note(self, name: str, text: str) -> None:
        """Take over a value. Properties that a resource lacks are empty."""
        if name == _HREF:
            if self._depth == 2 and not self._path:
                self._path = unquote(text if text.startswith("/") else urlsplit(text).path)
        elif name == _STATUS_NAME:
            status = _STATUS.match(text)
            if status is None:
                raise ValueError("not a status")
            if len(self._statuses) >= _STATUSES_MAX:
                raise ValueError("too many statuses")
            self._statuses += (int(status[1]),)
        elif text:
            if not _SIZE.fullmatch(text):
                raise ValueError("not a size")
            self._size = int(text)

    def _add_text(self, text: str) -> None:
        self._length += len(text)
        if self._length > _TEXT_MAX:
            raise ValueError("a value is too long")
        self._text.append(text)
