"""Lists of hosts, as of ``--ssh-workers``: ``bench-{01..20}:4,admin@[2001:db8::7]``.

Braces expand as in a shell: ``{01..20}`` and ``{1..9..2}`` are ranges of numbers, with as many
digits as the longer end if one begins with 0; ``{a,b}`` is a list, whose parts may have braces.
``[01-20,22]``, as elbencho and Slurm have it, and ``{1...20}``, as warp does, mean the same.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import NamedTuple

from ssbench.core.errors import UsageError
from ssbench.core.text import shortened

MAX_HOSTS = 1024
MAX_PROCESSES = 1024  #: of one host
MAX_BRACES = 16  #: pairs in one word
_WANTED = "give HOST or HOST:PROCESSES, as in bench-{01..20}:4 or admin@[2001:db8::7]"
_RANGE = re.compile(r"(-?\d+)\.{2,3}(-?\d+)(?:\.{2,3}(-?\d+))?", re.ASCII)
#: Numbers and ranges in brackets; an IPv6 address has colons.
_BRACKETS = re.compile(r"\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]", re.ASCII)
_MARKS = re.compile("[{},]")
#: What each mark adds to the number of open braces.
_DEPTHS = {"{": 1, "}": -1, ",": 0}
#: ``user@``, then a name or an address in brackets, then ``:processes``. No character that means
#: something to a shell: ssh passes both to those of ``ProxyCommand`` and ``Match exec``.
_HOST = re.compile(
    r"(?P<user>[\w.][\w.+-]*@)?"
    r"(?:(?P<name>[\w.][\w.-]*)|\[(?P<ip>[\w:.%-]+)\])"
    r"(?::(?P<processes>\d+|auto))?",
    re.ASCII,
)


class SshHost(NamedTuple):
    """A host that workers are started on."""

    target: str  #: ``user@name``, as ssh takes it
    processes: int | None = None  #: None: one for each CPU core

    @property
    def name(self) -> str:
        """Without the user."""
        return self.target.rpartition("@")[2]


def parse_hosts(text: str) -> tuple[SshHost, ...]:
    """The hosts of a list, which commas or white space separate; ``#`` begins a comment.

    :raises UsageError: a host is malformed or given twice, or there is none, or too many.
    """
    words = [
        word
        for line in text.splitlines()
        for part in line.partition("#")[0].split()
        for word in _split(_BRACKETS.sub(_in_braces, part))
        if word
    ]
    hosts: dict[str, SshHost] = {}
    for word in words:
        if word.count("{") > MAX_BRACES:
            raise UsageError(f"{shortened(word, 60)!r}: more than {MAX_BRACES} pairs of braces")
        for found in _expand(word):
            host = _host(found)
            if host.target in hosts:
                raise UsageError(
                    f"{host.target} is given twice: give it once, with its number of processes"
                )
            hosts[host.target] = host
            if len(hosts) > MAX_HOSTS:
                raise UsageError(f"more than {MAX_HOSTS:,} hosts")
    if not hosts:
        raise UsageError(f"there is no host: {_WANTED}")
    return tuple(hosts.values())


def _in_braces(found: re.Match[str]) -> str:
    """The same as numbers in brackets: ``{01..20}``, ``22``, ``{{01..20},22}``."""
    parts = [
        f"{{{part.replace('-', '..')}}}" if "-" in part else part for part in found[1].split(",")
    ]
    return parts[0] if len(parts) == 1 else f"{{{','.join(parts)}}}"


def _host(text: str) -> SshHost:
    found = _HOST.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r}: {_WANTED}")
    name = found["name"]
    if name is None:
        try:
            name = str(ipaddress.IPv6Address(found["ip"]))
        except ValueError:
            raise UsageError(f"{text!r}: no IPv6 address is in the brackets") from None
    processes = None
    if found["processes"] not in (None, "auto"):
        # Digits beyond those of the limit are not converted: there may be millions.
        processes = int(found["processes"][:8])
        if not 1 <= processes <= MAX_PROCESSES:
            raise UsageError(f"{text!r}: give 1 to {MAX_PROCESSES:,} processes, or auto")
    return SshHost(f"{found['user'] or ''}{name}", processes)


def _expand(text: str) -> Iterator[str]:
    """The words that a word with braces means, one by one."""
    start = text.find("{")
    if start < 0:
        yield text
        return
    end = _closing(text, start)
    head, inside, tail = text[:start], text[start + 1 : end], text[end + 1 :]
    for middle in _values(text, inside):
        for rest in _expand(tail):
            yield f"{head}{middle}{rest}"


def _values(text: str, inside: str) -> Iterator[str]:
    """What a pair of braces stands for."""
    numbers = _RANGE.fullmatch(inside)
    parts = _split(inside)
    if numbers is None:
        if len(parts) < 2:
            raise UsageError(f"{text!r}: give a range {{01..20}} or a list {{a,b}} in braces")
        for part in parts:
            yield from _expand(part)
        return
    ends = numbers[1], numbers[2]
    if max(map(len, ends)) > 9:
        raise UsageError(f"{text!r}: the numbers of a range have at most 9 digits")
    first, last = map(int, ends)
    step = abs(int((numbers[3] or "1")[:9])) or 1
    padded = any(end.lstrip("-").startswith("0") and len(end.lstrip("-")) > 1 for end in ends)
    width = max(map(len, ends)) if padded else 0
    for number in range(first, last + 1, step) if first <= last else range(first, last - 1, -step):
        yield f"{number:0{width}d}"


def _closing(text: str, start: int) -> int:
    """Where the brace that closes the one at ``start`` is."""
    depth = 0
    for found in _MARKS.finditer(text, start):
        depth += _DEPTHS[found[0]]
        if depth == 0:
            return found.start()
    raise UsageError(f"{text!r}: a brace is not closed")


def _split(text: str) -> list[str]:
    """The parts between commas that are in no braces."""
    parts, depth, start = [], 0, 0
    for found in _MARKS.finditer(text):
        depth += _DEPTHS[found[0]]
        if depth == 0 and found[0] == ",":
            parts.append(text[start : found.start()])
            start = found.end()
    return [*parts, text[start:]]
