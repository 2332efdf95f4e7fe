"""The table of a series of runs, a row for each load: as text, as CSV, as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssbench.core.stats.headroom import Headroom
from ssbench.core.stats.limit_search import Search
from ssbench.core.stats.steps import Step
from ssbench.core.stats.thresholds import Threshold
from ssbench.core.text import printable
from ssbench.report.notes import NO_STORE
from ssbench.report.options import percent_text
from ssbench.report.threshold_text import actual_text, verdict_row

#: What a series is over -> the head of its column, and a load in words.
_HEADS = {"users": "Users", "rate": "Rate/s"}
_WORDS = {"users": "{} users", "rate": "{} operations/s"}
_COLUMNS = (("Seconds", 9), ("Count", 11), ("Errors", 8), ("Ops/s", 11), ("MB/s", 10))
_LOAD_WIDTHS = {"users": 12, "rate": 9}
_LATENCY_WIDTH = 12
_SCHEMA = 1
_GENERATOR = "the load generator was the bottleneck"
#: What bound a search from above -> in words, with the load and the option for it.
_BOUNDS = {
    "": "nothing above {most} was tried (--max-{over})",
    "workers": "the workers can run only {most} (more workers, or a larger -c of ssbench-worker)",
}


@dataclass(frozen=True, slots=True)
class StepTable:
    """What all rows of a table have in common.

    :param over: a key of core.stats.steps.OVER.
    :param percentiles: of latencies; 100 is the maximum.
    :param thresholds: what each step is judged by.
    :param search: where the loads were searched for.
    """

    name: str
    over: str
    percentiles: tuple[float, ...]
    thresholds: tuple[Threshold, ...] = ()
    search: Search | None = None

    # As text, whole or line by line.

    def as_text(self, steps: Sequence[Step], *, over: bool = True) -> str:
        """All of the table.

        :param over: whether all was run that should be.
        """
        no_store = any(step.no_store for step in steps)
        note = f"\nNote: {NO_STORE}\n" if no_store else ""
        return "".join([self.head(), *map(self.row, steps), note, self.foot(over=over)])

    def head(self) -> str:
        """Above the rows."""
        which = "response time, from due" if self.over == "rate" else "service time, from start"
        columns = [*_COLUMNS, *((_label(p), _LATENCY_WIDTH) for p in self.percentiles)]
        columns += [(name, width) for _index, name, width in self._judged]
        names = "".join(f"{name:>{width}}" for name, width in columns)
        lines = ["", f"{printable(self.name)}, by {self.over} (latencies in ms: {which})"]
        if self.thresholds:
            lines.append(f"Thresholds: {self._promises()}")
        return "\n".join([*lines, f"{_HEADS[self.over]:>{_LOAD_WIDTHS[self.over]}}{names}"]) + "\n"

    def row(self, step: Step) -> str:
        """A step."""
        cells = [
            _figure(step.seconds, 1),
            str(step.operations),
            str(step.errors),
            _figure(step.rate_per_s, 1),
            _figure(step.bytes_per_s, 2, 1e6),
        ]
        widths = [width for _name, width in _COLUMNS]
        line = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        for percent in self.percentiles:
            line += f"{_figure(step.latencies[percent], 3, 1e6):>{_LATENCY_WIDTH}}"
        for index, _name, width in self._judged:
            text = actual_text(step.verdicts[index]) if step.verdicts else "N/A"
            line += f"{printable(text):>{width}}"
        remarks = "; ".join(self._remarks(step))
        load = f"{step.load:g}"
        if self.over == "users" and step.short_of_users:
            load = f"{step.users_ran} of {load}"
        return f"{load:>{_LOAD_WIDTHS[self.over]}}{line}  {remarks}".rstrip() + "\n"

    @property
    def _judged(self) -> list[tuple[int, str, int]]:
        """Index, name and width of the thresholds whose figures no other column has."""
        labels = {_label(percent) for percent in self.percentiles}
        names = [printable(threshold.name) for threshold in self.thresholds]
        return [
            (index, name, max(_LATENCY_WIDTH, len(name) + 2))
            for index, name in enumerate(names)
            if name not in labels and name not in names[:index]
        ]

    def _remarks(self, step: Step) -> list[str]:
        """What a reader must know of a row besides its figures."""
        found = [f"{step.lost} lost"] if step.lost else []
        found += [f"{step.late} never started"] if step.late else []
        found += [f"run {step.ended}"] if step.ended != "complete" else []
        found += [_GENERATOR] if step.generator is Headroom.NONE else []
        if step.short_of_users:
            ran = f"only {step.users_ran} of {step.users_asked} users ran"
            return [*found, f"{ran}: not counted"]
        if step.ended == "interrupted":
            return found  # what it would have kept nobody knows
        missed = ", ".join(printable(str(threshold)) for threshold in step.missed)
        if missed:
            return [*found, f"missed {missed}"]
        return [*found, "kept" if step.kept else "no result"] if self.thresholds else found

    def foot(self, *, over: bool = True) -> str:
        """Below the rows: what a search has found.

        :param over: whether the search came to its end.
        """
        if self.search is None:
            return ""
        kept, broken = self.search.kept, self.search.broken
        lines = [""] if over else ["", "The search was ended early:"]
        if kept is not None:
            kept_text = self._words(kept) + self._tries(kept, kept=True)
            lines.append(f"Highest load that met {self._promises()}: {kept_text}")
        else:
            lines.append(f"No load met {self._promises()}")
        if broken is not None:
            broken_text = self._words(broken) + self._tries(broken, kept=False)
            lines.append(f"Lowest load that missed it: {broken_text}")
        elif over and kept is not None:
            lines.append(f"The limit may be higher: {self._bound()}")
        return "\n".join(lines) + "\n"

    def _bound(self) -> str:
        """What kept the search from higher loads."""
        if self.search is None:
            return ""
        pattern = _BOUNDS[self.search.bound_by]
        return pattern.format(most=self._words(self.search.most), over=self.over)

    def _tries(self, load: float, *, kept: bool) -> str:
        """How often it did, where it was tried more than once."""
        kept_of, tries = self.search.tries(load) if self.search else (0, 0)
        times = kept_of if kept else tries - kept_of
        return f" (in {times} of {tries} runs)" if tries > 1 else ""

    def _promises(self) -> str:
        return " and ".join(printable(str(threshold)) for threshold in self.thresholds)

    def _words(self, load: float) -> str:
        return (
            "1 user" if (self.over, load) == ("users", 1) else _WORDS[self.over].format(f"{load:g}")
        )

    # For machines ---------------------------------------------------------------------------

    def as_csv(self, steps: Sequence[Step], *, over: bool = True) -> str:
        """A line of names, and a line for each step; it doesn't tell whether that was all."""
        out = io.StringIO()
        names = [*self._record(None), *self._verdicts(None)]
        writer = csv.DictWriter(out, names, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writeheader()
        for step in steps:
            cells = {**self._record(step), **self._verdicts(step)}.items()
            writer.writerow({k: printable(v) if isinstance(v, str) else v for k, v in cells})
        return out.getvalue()

    def as_json(self, steps: Sequence[Step], *, over: bool = True) -> str:
        """One object: the steps, and what a search has found."""
        found: dict[str, Any] = {
            "schema_version": _SCHEMA,
            "scenario": self.name,
            "over": self.over,
            "thresholds": [str(threshold) for threshold in self.thresholds],
            "steps": [
                {
                    **self._record(step),
                    "missed": [str(each) for each in step.missed],
                    "judged": [verdict_row(verdict) for verdict in step.verdicts],
                }
                for step in steps
            ],
        }
        if self.search is not None:
            found["largest_kept"] = self.search.kept
            found["smallest_broken"] = self.search.broken
            found["complete"] = over
            capped = over and self.search.broken is None and self.search.kept is not None
            found["capped_by"] = (self.search.bound_by or f"max-{self.over}") if capped else None
        return json.dumps(found, indent=2) + "\n"

    def _verdicts(self, step: Step | None) -> dict[str, Any]:
        """For CSV, as in the report's; None is for the names alone."""
        record: dict[str, Any] = {}
        for number, threshold in enumerate(self.thresholds, 1):
            row = verdict_row(step.verdicts[number - 1]) if step and step.verdicts else {}
            record[f"threshold_{number}"] = str(threshold)
            record[f"threshold_{number}_passed"] = int(row["passed"]) if row else None
            record[f"threshold_{number}_actual"] = row.get("actual")
        return record

    def _record(self, step: Step | None) -> dict[str, Any]:
        """By name; None is for the names alone."""
        record: dict[str, Any] = {
            self.over: step and step.load,
            "ended": step and step.ended,
            "seconds": step and step.seconds,
            "operations": step and step.operations,
            "errors": step and step.errors,
            "lost": step and step.lost,
            "late": step and step.late,
            "operations_per_s": step and step.rate_per_s,
            "bytes_per_s": step and step.bytes_per_s,
        }
        for name in ("service", "response"):
            values: Mapping[float, float | None] = getattr(step, name) if step else {}
            for percent in self.percentiles:
                record[f"{name}_{_label(percent)}_s"] = _seconds(values.get(percent))
        if self.thresholds:
            record["kept"] = None if step is None or step.short_of_users else int(step.kept)
        record["users_ran"] = step and step.users_ran
        record["counts"] = step and int(not step.short_of_users)
        record["load_generator"] = step and step.generator.value
        record["stats_file"] = step and step.path
        record["store_involved"] = step and int(not step.no_store)
        return record


def _label(percent: float) -> str:
    return "max" if percent == 100 else f"p{percent_text(percent)}"


def _figure(value: float | None, digits: int, unit: float = 1.0) -> str:
    return "N/A" if value is None else f"{value / unit:.{digits}f}"


def _seconds(value_ns: float | None) -> float | None:
    return None if value_ns is None else round(value_ns / 1e9, 9)
