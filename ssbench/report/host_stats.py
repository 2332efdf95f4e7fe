"""--host-stats: a CSV row for each process of ours and second, with the figures of its machine."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from ssbench.core.model import Phase
from ssbench.core.records import MASTER, HostRecord, PhaseRecord, Record, WorkerRecord
from ssbench.core.stats.host_metrics import FIGURES, bounded, core_name
from ssbench.core.text import printable

#: Before the figures.
FIRST = ("phase", "at_s", "wall_clock_s", "worker_index", "worker_id", "host", "boot_id")
_DIGITS = 6


def columns(records: Iterable[Record]) -> list[str]:
    """The names of the columns for these: those of all figures, and one for each core."""
    known = {
        name for record in records if isinstance(record, HostRecord) for name in record.figures
    }
    cores: list[str] = []
    while core_name(len(cores)) in known:
        cores.append(core_name(len(cores)))
    return [*FIRST, *FIGURES, *cores]


def host_rows(records: Iterable[Record], names: list[str]) -> Iterator[str]:
    """The file, piece by piece: the line of ``names``, then the rows in the order of the file.

    A figure that a machine couldn't tell is empty.
    """
    started_s: dict[Phase, float] = {}
    ids: dict[int, str] = {MASTER: ""}
    yield _line(names)
    for record in records:
        if isinstance(record, PhaseRecord):
            started_s[record.phase] = record.started_at
        elif isinstance(record, WorkerRecord):
            ids[record.index] = record.worker_id
        elif isinstance(record, HostRecord):
            wall_s = started_s.get(record.phase)
            first = [
                record.phase.name, f"{record.at_s:.3f}",
                "" if wall_s is None else f"{wall_s + record.at_s:.3f}",
                str(record.worker), printable(ids.get(record.worker, "")),
                printable(record.host), printable(record.boot_id),
            ]  # fmt: skip
            figures = bounded(record.figures)
            values = (figures.get(name) for name in names[len(FIRST) :])
            yield _line([*first, *map(_cell, values)])


def _cell(value: float | None) -> str:
    return "" if value is None else repr(round(value, _DIGITS))


def _line(values: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(values)
    return out.getvalue()
