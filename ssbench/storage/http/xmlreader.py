"""XML of a store, parsed as it arrives, as untrusted input. Pure.

Document types are refused, and with them all entities but XML's own. Nothing is kept but the
values below the root, the record that is being parsed, and a limited number of names: a listing of
millions needs no more memory than a short one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from xml.parsers import expat  # nosec B406 # declarations, and with them entities, are refused

from ssbench.storage.http.response import LISTING_MAX, StreamingCollector

_FEED = 1 << 16  #: bytes that are parsed at a time
_TOKEN_MAX = 1 << 20  #: bytes of a tag, which expat keeps until it is complete
_NAMES_MAX = 1000  #: names of elements, attributes and namespaces, which expat keeps forever
_TEXT_MAX = 16_384  #: characters of one value
_DEPTH_MAX = 32


class XmlReader(StreamingCollector):
    """Base of a parser, which takes the records. An error is kept until all data was fed.

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
