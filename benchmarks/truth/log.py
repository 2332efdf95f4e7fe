"""The server's log: a line per response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A request as the server saw it; times by its monotonic clock."""

    transaction: str
    method: str
    target: str
    status: int
    got_ns: int  #: its first bytes were there
    first_ns: int  #: the answer's head had left, and the first byte of its body if it has one
    last_ns: int  #: all of it had
    received: int  #: bytes of the request's body
    sent: int  #: bytes of the answer's body
    lied: int  #: 1 where the answer wasn't true


def write_log(path: Path, entries: Iterable[Entry]) -> None:
    """Write it tab-separated, with a header line."""
    with path.open("w", encoding="ascii") as file:
        file.write("\t".join(Entry._fields) + "\n")
        file.writelines("\t".join(map(str, entry)) + "\n" for entry in entries)


def read_log(path: Path) -> Iterator[Entry]:
    """Read a file of ``write_log``."""
    with path.open(encoding="ascii") as file:
        next(file)
        for line in file:
            transaction, method, target, *numbers = line.split("\t")
            yield Entry(transaction, method, target, *map(int, numbers))


def objects_only(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Requests for objects: ``/v1/ACCOUNT/CONTAINER/OBJECT``."""
    return (entry for entry in entries if entry.target.count("/") >= 4)
