"""Numbers and names as the cells of the text report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from ssbench.core.model import ErrorKind
from ssbench.core.stats.scenario_view import Profile, SizeView, crud_of
from ssbench.core.text import printable

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def seconds_cell(value_ns: float | None, width: int) -> str:
    """Seconds with three decimals, or a centred N/A as ssbench has always shown it."""
    if value_ns is None:
        return "  N/A  "[7 - width :]
    return f"{value_ns / 1e9:{width}.3f}"


def milliseconds(value_ns: float | None) -> str:
    """``0.412 ms``; N/A for None."""
    return "N/A" if value_ns is None else f"{value_ns / 1e6:.3f} ms"


def time_text(seconds: float | None) -> str:
    """``2026-11-20 09:49:38 UTC``; N/A for None, or a time that no calendar has."""
    if seconds is None:
        return "N/A"
    try:
        moment = datetime.fromtimestamp(seconds // 1, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return "N/A"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def short_time(seconds: float) -> str:
    """``6.6 s``, ``20 ms``, or ``0.4 ms``."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


def megabytes_per_s(bytes_per_s: float | None) -> str:
    """``12.35 MB/s``, a million bytes each; N/A for None."""
    return "N/A" if bytes_per_s is None else f"{bytes_per_s / 1e6:.2f} MB/s"


def size_range(size: SizeView) -> str:
    """``  4 kB -   8 kB``, or one size, both 15 wide."""
    low, high = _size(size.size_min), _size(size.size_max)
    return f"{low if low == high else f'{low} - {high}':15}"


def _size(count: int | None) -> str:
    if count is None:
        return "   N/A"
    for unit, name in _UNITS:
        if count / unit >= 0.9995:
            return f"{count / unit:3.0f} {name}"
    return f"{count:3}  B"


def profile_cells(profile: Profile | None, others: Sequence[str] = ()) -> str:
    """Shares in per cent: of CREATE, READ, UPDATE, DELETE, 15 wide, then of others by name."""
    crud, more = crud_of(profile), [(profile or {}).get(name, 0.0) for name in others]
    if crud is None:
        return " ".join(["N/A"] * 4)
    cells = [f"{100 * share:3.0f}" for share in crud]
    columns = zip(others, more, strict=True)
    return " ".join(cells + [f"{100 * share:{len(name)}.0f}" for name, share in columns])


def transaction_text(identifier: bytes) -> str:
    """A transaction id, harmless on a terminal."""
    return printable(identifier.decode("utf-8", "replace"))


def worst_cell(worst: tuple[int, bytes] | None) -> str:
    """The slowest operation's transaction id; ``None`` where it had none."""
    if worst is None:
        return ""
    return transaction_text(worst[1]) or "None"


def error_label(kind: int) -> str:
    """``network timeout``; a number that a later version may know is ``error 99``."""
    return ErrorKind(kind).label if kind in set(ErrorKind) else f"error {kind}"


def status_text(status: int) -> str:
    """An HTTP status; a dash where there was no answer."""
    return str(status) if status else "-"
