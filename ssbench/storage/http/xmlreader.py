"""XML of a store, parsed as it arrives, as untrusted input. Pure.

Document types are refused, and with them all entities but XML's own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from xml.parsers import expat  # nosec B406 # declarations, and with them entities, are refused

from ssbench.storage.http.response import LISTING_MAX, StreamingCollector

_FEED = 1 << 16  #: bytes that are parsed at a time
_TOKEN_MAX = 1 << 20  #: bytes of a tag, which expat keeps until it is complete
_NAMES_MAX = 1000  #: names of elements, attributes and namespaces, which expat keeps forever


class XmlReader(StreamingCollector):
    """Base of a parser, which takes the elements. An error is kept until all data was fed.

    :param limit: maximum length of the body in bytes.
    """

    _TEXT_MAX = 16_384  #: characters of one value

    def __init__(self, parser: expat.XMLParserType, limit: int = LISTING_MAX) -> None:
        super().__init__(limit)
        self._failed = False
        self._text: list[str] = []  #: of the current value
        self._length = 0
        self._fed = 0
        self._parser = parser
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._refuse
        # With any handler, prefixes and URIs are among the interned names.
        parser.StartNamespaceDeclHandler = lambda prefix, uri: None

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

    @abstractmethod
    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins; a ValueError makes the document invalid."""

    @abstractmethod
    def _end(self, name: str) -> None:
        """An element ends; a ValueError makes the document invalid."""

    def _begin_text(self) -> None:
        self._text.clear()
        self._length = 0

    def _add_text(self, text: str) -> None:
        self._length += len(text)
        if self._length > self._TEXT_MAX:
            raise ValueError("a value is too long")
        self._text.append(text)

    def _refuse(self, *_: object) -> None:
        raise ValueError("a document type declaration")
