"""Wrong responses of the server about an object. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

_WRONG_ETAG = "0" * 32


class Stored(NamedTuple):
    """An object."""

    body: bytes
    etag: str
    meta: str  #: lines of its headers that READs give back


def _wrong_etag(stored: Stored, other: Stored) -> Stored:
    return stored._replace(etag=_WRONG_ETAG)


def _other_object(stored: Stored, other: Stored) -> Stored:
    """Another object, with its ETag: only the content shows it."""
    return other


def _cut_short(stored: Stored, other: Stored) -> Stored:
    """One byte shorter, with the matching Content-Length."""
    return stored._replace(body=stored.body[:-1])


def _flipped_bit(stored: Stored, other: Stored) -> Stored:
    """Flip a bit in the middle."""
    body = bytearray(stored.body)
    body[len(body) // 2] ^= 1
    return stored._replace(body=bytes(body))


def _whole(stored: Stored, other: Stored) -> Stored:
    """As it is: the connection ends within its body."""
    return stored


#: ``LIES[name](stored, other)``: what is said of an object while there is another one.
LIES: dict[str, Callable[[Stored, Stored], Stored]] = {
    "etag": _wrong_etag,
    "other": _other_object,
    "short": _cut_short,
    "bit": _flipped_bit,
    "break": _whole,
}
