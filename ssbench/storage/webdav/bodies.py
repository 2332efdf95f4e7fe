"""Multistatus responses of WebDAV (RFC 4918, 13), as untrusted input. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.storage.http.response import LISTING_MAX
from ssbench.storage.http.xmlreader import XmlReader

_STATUSES_MAX = 100  #: of one response
_SLASHES = re.compile("/{2,}")
_STATUS = re.compile(r"HTTP/\S+ ([1-5][0-9]{2})\b")
_SIZE = re.compile(r"[0-9]{1,18}")
_RESPONSE, _COLLECTION = "DAV: response", "DAV: collection"
_HREF, _SIZE_NAME, _STATUS_NAME = "DAV: href", "DAV: getcontentlength", "DAV: status"


def plain_path(quoted: str) -> str:
    """The unquoted path, with one slash where some servers (davrods) give several."""
    path = unquote(quoted)
    return _SLASHES.sub("/", path) if "//" in path else path


#: Takes a member: path (as of ``plain_path``), size in bytes (0 if not stated), whether it is a
#: collection, and the statuses of the resource, or of groups of its properties.
TakeMember = Callable[[str, int, bool, tuple[int, ...]], object]


class Multistatus(XmlReader):
    """A response with members. Only ``finish`` raises.

    :param found: called with each member; may raise ValueError to reject the whole.
    """

    def __init__(self, found: TakeMember, limit: int = LISTING_MAX) -> None:
        super().__init__(
            {_RESPONSE}, {_HREF, _SIZE_NAME, _STATUS_NAME, _COLLECTION}, limit, has_namespaces=True
        )
        self._found = found
        self._path, self._size, self._is_collection = "", 0, False
        self._statuses: tuple[int, ...] = ()

    def finish(self, timing: Timing) -> None:
        """Check, after all data was fed, that it is a whole multistatus.

        :param timing: of the response, for the error.
        :raises StorageError: PROTOCOL: it isn't.
        """
        if not self._is_valid() or self.root != "DAV: multistatus":
            detail = "the store's response is not a valid multistatus of WebDAV"
            raise StorageError(ErrorKind.PROTOCOL, detail, status=timing.status, timing=timing)

    def value(self, name: str, depth: int, text: str) -> None:
        text = text.strip()
        if name == _HREF:
            if depth == 1 and not self._path:
                self._path = plain_path(text if text[:1] == "/" else urlsplit(text).path)
        elif name == _STATUS_NAME:
            status = _STATUS.match(text)
            if status is None or len(self._statuses) >= _STATUSES_MAX:
                raise ValueError("not a status, or too many")
            self._statuses += (int(status[1]),)
        elif name == _COLLECTION:
            self._is_collection = True
        elif text:  # properties that a resource lacks are empty
            if not _SIZE.fullmatch(text):
                raise ValueError("not a size")
            self._size = int(text)

    def take(self, name: str) -> None:
        if not self._path:
            raise ValueError("a response without a path")
        self._found(self._path, self._size, self._is_collection, self._statuses)
        self._path, self._size, self._is_collection = "", 0, False
        self._statuses = ()
