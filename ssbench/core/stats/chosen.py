"""Which results are of a selection, by names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from ssbench.core.operations import row_of
from ssbench.core.stats.selection import KINDS, Selection
from ssbench.core.text import printable
from ssbench.core.units import preview

if TYPE_CHECKING:
    from ssbench.core.stats.results import PhaseResults
    from ssbench.core.stats.run_records import RunRecords

Mask = npt.NDArray[np.bool_]


class Chosen:
    """Which results have the names of a selection, and which names there are.

    :param run: what is known of the run so far.
    """

    def __init__(self, selection: Selection, run: RunRecords) -> None:
        self._wanted = dict(selection.names)
        self._run = run
        #: Field of Selection -> names of what results are there, as reports show them; and of the
        #: given names those that occur.
        self._there: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._found: defaultdict[str, set[str]] = defaultdict(set)

    def __repr__(self) -> str:
        return f"<Chosen of {self._wanted}>"

    def rows(self, results: PhaseResults) -> Mask | None:
        """Whether each row is chosen; None: all are."""
        mask: Mask | None = None
        for kind, given in self._wanted.items():
            column = results.numbers(KINDS[kind].column)
            numbers = []
            for number in np.unique(column).tolist():
                shown, *others = self._names(kind, number)
                self._there[kind][shown] = None
                found = {name for name in given if _alike(kind, name, [shown, *others])}
                self._found[kind] |= found
                if found:
                    numbers.append(number)
            own = np.isin(column, numbers)
            mask = own if mask is None else mask & own
        return mask

    def missing(self) -> Iterator[str]:
        """A line for each name that no result of the run has, with those that occur."""
        for kind, given in self._wanted.items():
            there = ", ".join(map(printable, self._there[kind])) or "none"
            for name in given:
                if name not in self._found[kind]:
                    what = KINDS[kind]
                    yield (
                        f"{what.flag} {preview(name)}: the run has no results of such "
                        f"{'an' if what.word[0] in 'eo' else 'a'} {what.word}; it has: {there}"
                    )

    def _names(self, kind: str, number: int) -> list[str]:
        """What names a number in a column: first as reports show it."""
        run = self._run
        if kind == "operation_names":
            row = row_of(number, run.operations)
            return [row.name, row.alias]
        if kind == "size_class_names":
            sizes = run.scenario.sizes
            return [sizes[number].name if 0 <= number < len(sizes) else f"class {number}"]
        if kind == "worker_names":
            worker = run.workers.get((run.run_id, number))
            return [run.worker_id(run.run_id, number), *([worker.host] if worker else [])]
        url = run.endpoint(run.run_id, number)
        try:
            parts = urlsplit(url)
        except ValueError:
            return [url]
        return [url, parts.netloc, parts.hostname or ""]


def _alike(kind: str, given: str, names: Sequence[str]) -> bool:
    """Whether one of the names is the given one; those of operations are so in any case."""
    return (given.upper() if kind == "operation_names" else given) in filter(None, names)
