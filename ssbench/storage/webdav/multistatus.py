"""Multistatus responses of WebDAV (RFC 4918, 13), parsed as they arrive, as untrusted input. Pure.

Nothing is kept but the response that is being parsed, and a limited number of XML names: a listing
of millions needs no more memory than a short one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from xml.parsers import expat  # nosec B406 # see XmlReader

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.storage.http.response import LISTING_MAX
from ssbench.storage.http.xmlreader import XmlReader

_DEPTH_MAX = 32
_STATUSES_MAX = 100  #: of one response
_SLASHES = re.compile("/{2,}")
_STATUS = re.compile(r"HTTP/\S+ ([1-5][0-9]{2})\b")
_SIZE = re.compile(r"[0-9]{1,18}")
_ROOT, _RESPONSE, _COLLECTION = "DAV: multistatus", "DAV: response", "DAV: collection"
HREF, _SIZE_NAME, _STATUS_NAME = "DAV: href", "DAV: getcontentlength", "DAV: status"
_TEXTS = frozenset({HREF, _SIZE_NAME, _STATUS_NAME})


def plain_path(quoted: str) -> str:
    """The unquoted path, with one slash where some servers (davrods) give several."""
    return _SLASHES.sub("/", unquote(quoted))


class ResponseCounter(XmlReader):
    """Counts the responses of a multistatus, at a tenth of the cost of parsing them.

    Only ``finish`` raises.
    """

    def __init__(self, limit: int = LISTING_MAX) -> None:
        super().__init__(expat.ParserCreate(namespace_separator=" "), limit)
        self.responses = 0
        self._depth = 0
        self._root = ""

    def finish(self, timing: Timing) -> None:
        """Check, after all data was fed, that it is a whole multistatus.

        :param timing: of the response, for the error.
        :raises StorageError: PROTOCOL: it isn't.
        """
        if not self._is_valid() or self._root != _ROOT:
            detail = "the store's response is not a valid multistatus of WebDAV"
            raise StorageError(ErrorKind.PROTOCOL, detail, status=timing.status, timing=timing)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self._root = name
        elif self._depth > _DEPTH_MAX:
            raise ValueError("too deep")

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._depth == 1 and name == _RESPONSE:
            self.responses += 1


class Member(NamedTuple):
    """One response: a resource, and how the request went for it."""

    path: str  #: as of ``plain_path``
    size: int  #: bytes; 0 if not stated
    is_collection: bool
    statuses: tuple[int, ...]  #: of the resource, or of groups of its properties


class Multistatus(ResponseCounter):
    """Parses the responses as well.

    :param take: called with each member; may raise ValueError to reject the whole.
    """

    def __init__(self, take: Callable[[Member], object], limit: int = LISTING_MAX) -> None:
        super().__init__(limit)
        self._take = take
        self._path = ""
        self._size = 0
        self._is_collection = False
        self._statuses: tuple[int, ...] = ()
        self._parser.buffer_text = True

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        super()._start(name, attributes)
        if name in _TEXTS:
            self._begin_text()
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
        if name == HREF:
            if self._depth == 2 and not self._path:
                self._path = plain_path(text if text.startswith("/") else urlsplit(text).path)
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
