"""Secrets: structs whose repr leaves fields out, and texts of others that may repeat a secret."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from msgspec import Struct

from ssbench.core.errors import SsbenchError, StorageError

_LEAST = 6  #: characters of a secret; a shorter one may be part of any word
_START = 12  #: characters that identify a secret; the rest may be cut off
#: Of the payloads of credentials: no secrets.
_PUBLIC = frozenset({"access_key", "region", "realm", "hash_name", "user"})


class Hiding(Struct, frozen=True):
    """A struct whose repr leaves out the fields that ``HIDDEN`` names."""

    HIDDEN: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # a struct's own has every field
        names = [name for name in self.__struct_fields__ if name not in self.HIDDEN]
        return [(name, getattr(self, name)) for name in names]


class Secrets:
    """Our secrets, as a service may send them back: in an id, a name, a reason, an error's body.

    :param payload: of Credentials, or any other map with texts; short ones are no secrets.
    :param before: those that it renews: what was sent with them may be answered after that.
    """

    def __init__(
        self, payload: Mapping[str, Any] | None = None, before: Secrets | None = None
    ) -> None:
        self._own = {text[:_START] for text in _texts(payload or {}) if len(text) >= _LEAST}
        starts = self._own | (before._own if before else set())
        self._starts = [start.encode() for start in starts]
        self._pattern = re.compile("|".join(map(_found_by, starts))) if starts else None

    def __repr__(self) -> str:
        return f"<{len(self._starts)} secrets>"

    def are_in(self, data: bytes) -> bool:
        """Whether the data repeats one of them, or its beginning."""
        return any(start in data for start in self._starts)

    def masked(self, text: str) -> str:
        """The text, with ``***`` where it repeats one of them, or its beginning."""
        return self._pattern.sub("***", text) if self._pattern else text

    def masked_id(self, identifier: bytes) -> bytes:
        return b"***" if self.are_in(identifier) else identifier

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Mask them in the text of an error that is raised within."""
        try:
            yield
        except SsbenchError as error:
            text = self.masked(str(error))
            if text == str(error):
                raise
            if not isinstance(error, StorageError):
                raise type(error)(text) from None
            error.detail, error.args = text, (text,)
            raise error from None


def _found_by(start: str) -> str:
    """A pattern for a secret; also for its first characters where a text is cut off."""
    cut_off = [re.escape(start[:length]) for length in range(len(start) - 1, _LEAST - 1, -1)]
    at_end = rf"|(?:{'|'.join(cut_off)})(?=(?:\.\.\.)?$)" if cut_off else ""
    return rf"{re.escape(start)}\S*{at_end}"


def _texts(payload: Mapping[str, Any]) -> Iterator[str]:
    for name, value in payload.items():
        if name in _PUBLIC:
            continue
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, Mapping):
                yield from _texts(each)
            elif isinstance(each, str):
                yield each
                if name == "basic":  # user and password
                    yield b64decode(each).decode("utf-8", "replace").partition(":")[2]
