"""The report model: what a report says, as typed values in sections; nothing is formatted.

A builder (``run``, ``series``, ``comparison``) makes a Report from statistics, ``tables`` lays out
what people read of it, and renderers (``as_text``, ``as_csv``, ``as_data``, ...) write it in their
format. To add a block of figures, let a builder add a Section: every renderer shows a section,
table or column that it has no special layout for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from ssbench.core.sparse import SPARSE_MARK, SPARSE_NOTE, Sparse, marked
from ssbench.core.text import bytes_text

if TYPE_CHECKING:
    from ssbench.core.stats.histogram import Buckets, Histogram

#: The formats that show a value; "text" stands for every format that people read, "wide" for those
#: of them that have the room.
Formats = Literal[
    "text csv json", "csv json", "text json", "text csv", "text", "csv", "json", "wide", ""
]  # fmt: skip
ALL: Final = "text csv json"
DATA: Final = "csv json"

#: A row's values by the key of their column. A value is None (unknown), a bool, number or string,
#: a Distribution, Interval, Actual, Note or Table, or a sequence or mapping of these.
Row = Mapping[str, Any]


class Unit(Struct, frozen=True):
    """What a number counts, and in which unit it is shown."""

    symbol: str = ""  #: for people
    divisor: float = 1  #: value / divisor is in that unit
    digits: int = 0  #: decimals for people
    stored: float = 1  #: value / stored is in the unit of CSV and JSON
    short: str = ""  #: the heading of a narrow column; "": the column's title


WORD = Unit()  #: text, a flag, or a value that is shown as it is
COUNT = Unit()
OUTCOME = Unit()  #: operations that ended so, which a comparison shows beside their number
RATE = Unit("operations/s", digits=1, short="Ops/s")
ITEM_RATE = Unit("items/s", digits=1)
PAGE_RATE = Unit("pages/s", digits=1)
BYTES = Unit()  #: shown as "1.5 kB"
THROUGHPUT = Unit("MB/s", 1e6, 2, short="MB/s")  #: of bytes/s
PERCENT = Unit("%", digits=2)
SECONDS = Unit("s", digits=1)
WALL_CLOCK = Unit("UTC")  #: seconds since 1970
LATENCY = Unit("ms", 1e6, 3, 1e9)  #: of nanoseconds


class Column(Struct, frozen=True):
    """A figure's name and unit; docs/report-1.schema.json says what each key of JSON means."""

    key: str  #: its name in JSON
    unit: Unit
    title: str = ""  #: its heading for people; "": the key
    csv: str = ""  #: its name in CSV; "": the key, behind the section's prefix
    formats: Formats = ALL
    rare: bool = False  #: people do not see it where no row has any


def quantiles(times: Histogram | Buckets, percents: Sequence[float]) -> dict[float, float | None]:
    """Percentiles of times; None where there are none."""
    found = zip(percents, times.quantiles(percents), strict=True)
    return {percent: marked(percent, value, times.count) for percent, value in found}


@cache
def percentile_column(of: str, percent: float, formats: Formats = ALL) -> Column:
    """Of times, such as ``service_p99_s``, which people see as ``p99``.

    :param of: the times; "": those that the row is of.
    """
    label = percent_label(percent)
    return Column(f"{of}_{label}_s".lstrip("_"), LATENCY, label, formats=formats)


def percentile_row(of: str, values: Mapping[float, float | None]) -> Row:
    """The values of these columns, from those by percent, as ``quantiles`` gives them."""
    return {percentile_column(of, percent).key: value for percent, value in values.items()}


def percentile_facts(
    of: str, values: Mapping[float, float | None], formats: Formats = ALL
) -> list[Fact]:
    """The same with their columns."""
    return [Fact(percentile_column(of, each, formats), value) for each, value in values.items()]


def sparse_of(values: Mapping[float, float | None]) -> list[str]:
    """Of percentiles those with fewer than ten operations beyond them: ``99``, ``99.9``."""
    return [percent_text(each) for each, value in values.items() if isinstance(value, Sparse)]


def sparse_notes(values: Iterable[float | None]) -> list[Note]:
    """What the mark of these percentiles means, if one has it."""
    return [plain_note(SPARSE_NOTE)] if any(isinstance(each, Sparse) for each in values) else []


class Distribution(Struct, frozen=True):
    """Durations of successful operations, in nanoseconds; None where there is none."""

    count: int
    out_of_range: int
    uncertain: int  #: durations that are unknown, and in no other figure
    min: float | None
    max: float | None
    mean: float | None
    std_dev: float | None
    #: By percent; 100 is the maximum. Those with too few operations beyond them are Sparse.
    percentiles: Mapping[float, float | None]
    worst_id: str | None  #: transaction id of the slowest; "" where it had none

    @property
    def sparse(self) -> list[str]:
        """The percentiles with fewer than ten operations beyond them: ``99``, ``99.9``."""
        return sparse_of(self.percentiles)


def judged_latency(row: Row) -> Distribution:
    """Of a row with the figures of operations, the latencies that people judge it by: response
    times where its operations had due times, otherwise service times."""
    found: Distribution = row["response_time"] or row["last_byte_latency"]
    return found


def latency_name(rows: Iterable[Row]) -> str:
    """What these latencies are: "response time" if those of any row are."""
    return "response time" if any(row["response_time"] for row in rows) else "service time"


class Interval(Struct, frozen=True):
    """An estimate, and the confidence interval around it; None where unknown."""

    value: float | None
    low: float | None
    high: float | None
    unit: Unit


class Actual(Struct, frozen=True):
    """What a threshold was held against, in its unit; None where nothing was measured."""

    value: float | None
    limit: float
    unit: str


class Fact(Struct, frozen=True):
    """One value."""

    column: Column
    value: Any


def fact(
    key: str,
    value: Any,
    unit: Unit,
    formats: Formats = ALL,
    *,
    title: str = "",
    csv: str = "",
) -> Fact:
    """A value, and what a Column says of it."""
    return Fact(Column(key, unit, title, csv, formats), value)


def as_row(facts: Iterable[Fact]) -> Row:
    """Their values, by key."""
    return {each.column.key: each.value for each in facts}


#: In JSON of each kind of report.
SCHEMA_VERSION = fact("schema_version", 1, COUNT, "json")


class LazyRows(Sequence[Row]):
    """Rows that are computed whenever they are read.

    :param make: gives a new iterator over them.
    """

    def __init__(self, make: Callable[[], Iterator[Row]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Row]:
        return self._make()

    def __len__(self) -> int:
        return sum(1 for _row in self)

    def __getitem__(self, at: Any) -> Any:
        return list(self)[at]


class Table(Struct, frozen=True):
    """Rows of the same columns.

    :param by: key of the column that names a row: JSON makes a mapping by it, else a list.
    :param csv: what its names in CSV begin with; "": the section's prefix.
    """

    key: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    by: str = ""
    csv: str = ""
    formats: Formats = ALL

    @classmethod
    def of(cls, key: str, rows: Sequence[Sequence[Fact]], **settings: Any) -> Table:
        """A table whose columns are those of its rows, which all have the same; none without a
        row."""
        columns = [each.column for each in rows[0]] if rows else []
        return cls(key, columns, list(map(as_row, rows)), **settings)


def shown_columns(columns: Iterable[Column], rows: Sequence[Row]) -> list[Column]:
    """Those that people see."""
    return [
        column for column in columns
        if "text" in column.formats
        if not column.rare or any(row[column.key] for row in rows if column.key in row)
    ]  # fmt: skip


class Level(Enum):
    """How grave a note is, from the gravest on; the same in all formats."""

    SEVERE = "severe"  #: the figures are not those of what was asked for
    WARNING = "warning"  #: they are, but must not be quoted without this
    NOTE = "note"  #: what explains them
    PLAIN = "plain"

    @property
    def prefix(self) -> str:
        """What begins its line."""
        return {"severe": "WARNING: ", "warning": "Warning: ", "note": "Note: "}.get(self.value, "")


class Note(Struct, frozen=True):
    """A sentence for people, with its figures for programs."""

    level: Level
    sentence: str
    figures: Row = {}
    formats: Formats = ALL


def plain_note(sentence: str) -> Note:
    """A line for people, without figures."""
    return Note(Level.PLAIN, sentence, formats="text")


class Section(Struct, frozen=True):
    """A part of a report.

    JSON nests its facts and tables under ``key``, on top where that is "". A section of one fact
    or table of the same key is that, one of notes is a list, and one of which nothing is known is
    null.

    :param title: its heading in text, where no layout gives it another place.
    :param notes: None where this section never has any.
    :param prefix: what its names in CSV begin with; None: ``key_``.
    """

    key: str
    title: str = ""
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[Note] | None = None
    prefix: str | None = None
    formats: Formats = ALL

    def __getitem__(self, key: str) -> Any:
        """A fact's value.

        :raises KeyError: where there is no such fact.
        """
        return self.row[key]

    @property
    def row(self) -> Row:
        """The values of its facts, by key."""
        return as_row(self.facts)


def section_of(table: Table, title: str = "", formats: Formats = ALL) -> Section:
    """The section of a single table."""
    return Section(table.key, title, tables=[table], formats=formats)


class Line(Struct, frozen=True):
    """A line of a chart; y is None where there is no value."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    labels: Sequence[str] = ()  #: of each point, for charts of single points
    texts: Sequence[str] = ()  #: beside the points
    form: str = ""  #: "points" (not joined, of the line before) or "limit" (dashed)


class Mark(Struct, frozen=True):
    """A moment, or a part, of the time of a chart."""

    kind: str  #: "stage", "excluded", "fault", "marked", "end" or "limit"
    at: float
    until: float | None
    text: str


class Chart(Struct, frozen=True):
    """Lines along common axes."""

    title: str
    x_title: str
    y_title: str
    lines: Sequence[Line]
    kind: str = "line"  #: "line", "stack" (areas on top of each other), "points" or "bars"
    y_log: bool = False
    marks: Sequence[Mark] = ()
    ticks: Sequence[tuple[float, str]] = ()
    note: str = ""  #: a sentence below it


class Report(Struct, frozen=True):
    """What all formats show of a run, a series of runs, or a comparison."""

    kind: str  #: "run", "series" or "comparison"
    sections: Sequence[Section]
    #: The percentile, above 0 and at most 100, that is a column of a run's tables.
    percentile: float = 95.0
    legacy: bool = False  #: results of ssbench 0.3.9, whose text says no more than its own did
    rows: Table | None = None  #: what CSV has a line of each row of; None: one line of all facts
    charts: Callable[[], Iterable[Chart]] = tuple  #: that a page draws

    def __getitem__(self, key: str) -> Section:
        """The section of that key.

        :raises KeyError: where there is none.
        """
        for section in self.sections:
            if section.key == key:
                return section
        raise KeyError(key)

    @property
    def operations(self) -> list[Row]:
        """The figures of all operations together, as TOTAL, where they are known; then of each."""
        total = self["total"].row
        both = [{"operation": "TOTAL", **total}] if total else []
        return [*both, *self["operations"].tables[0].rows]

    @property
    def shown_operations(self) -> list[Row]:
        """The same for people: of a run without those that it was not to do, and did not."""
        shares = self["run"]["operations_weighted_average"]
        if self.legacy or not shares:
            return self.operations
        return [
            row
            for row in self.operations
            if row["operation"] == "TOTAL"
            or shares.get(row["operation"])
            or row["count"] + row["errors"]
        ]


MANY_TIMES = 5  #: a ratio from which on a change is a factor: "+1,190 %" is hard to read
#: In every report, whatever else is asked for.
USUAL_PERCENTILES = (50.0, 95.0, 99.0, 99.9, 100.0)


def all_percentiles(asked: Sequence[float]) -> tuple[float, ...]:
    """Those asked for and the usual ones, rising.

    :raises ValueError: for none, or for one that is not above 0 and at most 100.
    """
    if not asked:
        raise ValueError("no percentile: give at least one above 0 and at most 100")
    for percent in asked:
        if not 0 < percent <= 100:
            raise ValueError(f"percentile {percent:g}: it must be above 0 and at most 100")
    return tuple(sorted({*USUAL_PERCENTILES, *asked}))


def percent_text(percent: float) -> str:
    """``95``, ``99.9``: as a user writes it, and as keys have it."""
    return str(int(percent)) if percent == int(percent) else repr(float(percent))


def percent_label(percent: float) -> str:
    """``p95``, ``p99.9``, ``max``."""
    return "max" if percent == 100 else f"p{percent_text(percent)}"


def latency_text(value_ns: float | None) -> str:
    """``4.742 ms``, from a second on ``1.234 s``, below 0.1 ms ``4.742 µs``; N/A for None;
    ``~4.742 ms`` where it is Sparse."""
    if value_ns is None:
        return "N/A"
    mark = SPARSE_MARK if isinstance(value_ns, Sparse) else ""
    if 0 < value_ns < 99_999.5:  # fewer than three digits of milliseconds
        return f"{mark}{value_ns / 1e3:.3f} µs"
    if value_ns < 999_999_500:
        return f"{mark}{value_ns / 1e6:.3f} ms"
    return f"{mark}{value_ns / 1e9:.3f} s"


def rate_text(what: str, per_s: float) -> str:
    """``120/s`` of operations, ``14.9 MB/s`` of bytes."""
    return f"{bytes_text(round(per_s)) if what == 'bytes' else f'{per_s:,.0f}'}/s"


def change_text(ratio: float | None, *, factor: bool | None = None) -> str:
    """``+20.0%``, or ``x 11.9`` where a per cent would be hard to read; N/A for None.

    :param factor: for one form of several ratios beside each other.
    """
    if ratio is None:
        return "N/A"
    if ratio >= MANY_TIMES if factor is None else factor:
        return f"x {ratio:,.1f}" if ratio >= 1 else f"x {ratio:.2g}"
    return f"{round(ratio - 1, 3) + 0.0:+.1%}"  # -0.0 + 0.0 is 0.0


def time_text(seconds: float | None) -> str:
    """``2026-11-20 09:49:38 UTC``; N/A for None, or a time that no calendar has."""
    if seconds is None:
        return "N/A"
    try:
        moment = datetime.fromtimestamp(seconds // 1, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return "N/A"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
