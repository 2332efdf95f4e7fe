"""Thresholds, conditions that a run must meet: ``p99(READ) < 50ms``, ``errors < 0.1%``; and rules,
conditions that no change of a comparison may meet: ``p99(READ) > +10%``, ``rate < -5%``.

::

    threshold = metric [ "(" scope ")" ] operator number unit
    scope     = operation | size class | operation "," size class
    operator  = "<" | "<=" | ">" | ">=" | "=="
    rule      = metric [ "(" operation ")" ] ("<" | "<=" | ">" | ">=") number "%"

An operation is one of the run phase, such as READ, by its name or alias in any case. A size class
has its name in the scenario, in double quotes (as in JSON) if that is also the name of an operation
or contains one of ``(),"``. The number of a rule is the change against the first run, below 0 for
less.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.errors import ScenarioError, UsageError
from ssbench.core.model import Phase
from ssbench.core.operations import OPERATIONS, Operation, of_phase, operation_named, row_of
from ssbench.core.scenario.checks import suggest
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.sparse import is_sparse
from ssbench.core.text import close_matches
from ssbench.core.units import preview

if TYPE_CHECKING:
    from ssbench.core.stats.run_stats import RunStats
    from ssbench.core.stats.tally import Tally

RELATIVE_ERROR = 2.0**-12  #: of a percentile: core.stats.histogram's, which needs numpy

Number = int | float | Fraction

DURATIONS = {"us": 1000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_RATES = {"/s": 1, "": 1}
THROUGHPUTS = {
    **{f"{prefix}B/s": 1000**n for n, prefix in enumerate(("", "k", "M", "G"))},
    **{f"{prefix}iB/s": 1024**n for n, prefix in enumerate(("K", "M", "G"), 1)},
}
_COUNTS = {"": 1, "%": 1}
_ONLY_COUNT = {"": 1}


class Metric(NamedTuple):
    """A row of the table of metrics."""

    units: Mapping[str, int]  #: unit -> base units: nanoseconds, bytes a second, percent, 1
    example: str
    #: (run, sums of the scope, unit) -> the value in base units.
    measure: Callable[[RunStats, Tally, str], Number | None]
    scoped: bool = True


def _retries(_stats: RunStats, tally: Tally, unit: str) -> Number | None:
    # In percent of the successes, as in the report.
    return _share(tally.retries, tally.count, unit) if tally.operations else None


def _of_footer(name: str) -> Callable[[RunStats, Tally, str], Number | None]:
    """A count that is in the run's footer; its share is of all operations, these included."""

    def measure(stats: RunStats, tally: Tally, unit: str) -> Number | None:
        count: int = getattr(stats.run, name)
        lost = 0 if name == "lost" else stats.run.lost
        whole = tally.operations + stats.left_out + lost + count
        return _share(count, whole, unit) if stats.run.footer and whole else None

    return measure


def _late(stats: RunStats, tally: Tally, unit: str) -> Number | None:
    is_open = any(mark.rate for mark in stats.run.stages)
    return _of_footer("late")(stats, tally, unit) if is_open else None


def _counter(name: str) -> Callable[[RunStats, Tally, str], Number | None]:
    def measure(_stats: RunStats, tally: Tally, unit: str) -> Number | None:
        count: int = getattr(tally, name)
        return _share(count, tally.operations, unit) if tally.operations else None

    return measure


def _share(part: int, whole: int, unit: str) -> Number | None:
    if unit != "%":
        return part
    return Fraction(100 * part, whole) if whole else None


#: All but the latencies.
METRICS: dict[str, Metric] = {
    "rate": Metric(_RATES, "1000/s", lambda _stats, tally, _unit: tally.rate_per_s),
    "throughput": Metric(THROUGHPUTS, "100MB/s", lambda _stats, tally, _unit: tally.bytes_per_s),
    "errors": Metric(_COUNTS, "0.1%", _counter("errors")),
    "retries": Metric(_COUNTS, "1%", _retries),
    "rate_limited": Metric(_COUNTS, "1%", _counter("rate_limited")),
    "lost": Metric(_COUNTS, "1", _of_footer("lost"), scoped=False),
    "late": Metric(_COUNTS, "1%", _late, scoped=False),
    "skipped": Metric(_COUNTS, "1%", _of_footer("skipped_count"), scoped=False),
    "left_behind": Metric(_ONLY_COUNT, "1", _of_footer("left_behind"), scoped=False),
}

#: Prefix of a latency's name -> attribute of Tally; "" depends on the run.
_LATENCIES = {
    "": "",
    "service_": "last_byte",
    "response_": "response",
    "first_byte_": "first_byte",
    "headers_": "headers",
}
LATENCY = re.compile(
    rf"({'|'.join(_LATENCIES)})(?:p([0-9]{{1,6}}(?:\.[0-9]{{1,6}})?)|mean|min|max)"
)
KNOWN = (
    "p50, p99.9 and the like, mean, min, max, each also as service_p99, response_p99, "
    f"first_byte_p99, headers_p99; {', '.join(METRICS)}"
)


def metric_of(name: str) -> Metric:
    """The row of a metric or latency, whose name must be valid."""
    return METRICS.get(name) or Metric(DURATIONS, "50ms", _measure_of(name))


def _measure_of(name: str) -> Callable[[RunStats, Tally, str], Number | None]:
    def measure(_stats: RunStats, tally: Tally, _unit: str) -> Number | None:
        histogram = getattr(tally, latency_of(name, tally) or "").histogram
        percent = percent_of(name)
        if percent is not None:
            found: Number | None = histogram.percentile(percent)
        else:
            found = getattr(histogram, name.rpartition("_")[2])
        return found

    return measure


def latency_of(name: str, tally: Tally) -> str | None:
    """The attribute of the tally that a latency's name means; None for other metrics."""
    match = LATENCY.fullmatch(name)
    if match is None:
        return None
    return _LATENCIES[match[1]] or ("response" if tally.has_due_times else "last_byte")


def percent_of(name: str) -> float | None:
    """99.9 for ``service_p99.9``; None if it is no percentile."""
    match = LATENCY.fullmatch(name)
    return float(match[2]) if match and match[2] else None


_Compare = Callable[[Fraction, Fraction], bool]

_OPERATORS: dict[str, _Compare] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}
_SAME_UNIT = {"µs": "us", "μs": "us"}  # micro sign and Greek letter
_MEANT = {"=": "==", "=<": "<=", "=>": ">=", "≤": "<=", "≥": ">="}


class Threshold(Struct, frozen=True):
    """A condition that a run must meet; ``parse`` of its ``str()`` gives an equal one.

    ``p99``, ``mean``, ``min`` and ``max`` are of the response time (from due) in an open loop, else
    of the service time (from start); ``service_p99``, ``response_p99``, ``first_byte_p99``,
    ``headers_p99`` say which. Latencies are those of successes.
    """

    metric: str
    operator: str
    number: Decimal
    unit: str
    operation: Operation | None = None
    size_class: str | None = None

    @classmethod
    def parse(
        cls,
        text: str,
        option: str = "--threshold",
        known: Mapping[int, Operation] | None = OPERATIONS,
    ) -> Threshold:
        """The threshold that the text describes.

        :param option: the option that it was given to, for errors.
        :param known: the run's operations. None: not known yet, so only the form of the scope is
            checked, and the threshold has none.
        :raises UsageError: what is wrong, at which character, and what would be right.
        """
        return _Reader(text, option, known).threshold()

    def __str__(self) -> str:
        return f"{self.name} {self.operator} {self.number:f}{self.unit}"

    @property
    def name(self) -> str:
        """Metric and scope: ``p99(READ, tiny)``."""
        words = [self.operation.name] if self.operation is not None else []
        if self.size_class is not None:
            words.append(_quoted(self.size_class))
        return f"{self.metric}({', '.join(words)})" if words else self.metric

    @property
    def limit(self) -> Fraction:
        """In base units: nanoseconds, operations a second, bytes a second, percent, or a count."""
        return Fraction(self.number) * metric_of(self.metric).units[self.unit]

    def allows(self, value: Number) -> bool:
        """Whether a value in base units meets it."""
        return _OPERATORS[self.operator](Fraction(value), self.limit)

    def check(
        self,
        scenario: Scenario,
        *,
        known: Mapping[int, Operation] = OPERATIONS,
        open_loop: bool | None = None,
        what: str = "",
    ) -> None:
        """Check that a run of the scenario can meet or miss the threshold.

        :param known: the run's operations.
        :param what: an error calls the threshold; "": by itself.
        :param open_loop: whether its operations have due times; None: not known.
        :raises UsageError: the scenario does not have the size class or operation, or a closed loop
            does not have the metric.
        """
        what = what or f"threshold {self}"
        names = [size.name for size in scenario.sizes]
        if self.size_class is not None and self.size_class not in names:
            wrong = f"the scenario has no size class {preview(self.size_class)}"
            right = suggest(self.size_class, names)
            if self.operation is None and not close_matches(self.size_class, names):
                wrong += ", nor is that an operation"
                operations = _like(self.size_class, self._operations(scenario, None, known))
                classes = right.removeprefix("one of ")
                right = f"operations: {', '.join(operations)}; size classes: {classes}"
            raise UsageError(f"{what}: {wrong}; {right}")
        done = self._operations(scenario, self.size_class, known)
        if self.operation is not None and self.operation.name not in done:
            wrong = f"the scenario does no {self.operation.name}"
            where = "" if self.size_class is None else f" of {preview(self.size_class)}"
            right = f"its operations are {', '.join(done)}"
            raise UsageError(f"{what}: {wrong}{where}; {right}")
        if open_loop is False and self.metric.startswith("response_"):
            wrong = "a closed loop has no due times, so no response times"
            raise UsageError(f"{what}: {wrong}; use service_, or a run with a rate")
        if open_loop is False and self.metric == "late":
            wrong = "a closed loop has no due times, so nothing is late"
            raise UsageError(f"{what}: {wrong}; leave it out, or use a run with a rate")

    def judge(self, stats: RunStats) -> ThresholdResult:
        """Whether the run met it; without a measured value it did not.

        Percentiles are accurate to ``RELATIVE_ERROR`` (0.025 %), all other values are exact. Within
        that error a percentile is ``==`` its limit, and ``ThresholdResult.borderline`` is True.
        """
        tally = self._part(stats)
        latency = latency_of(self.metric, tally)
        actual = metric_of(self.metric).measure(stats, tally, self.unit)
        if actual is None:
            return ThresholdResult(
                self, None, passed=False, latency=latency, why=self._nothing(stats)
            )
        percent = percent_of(self.metric)
        sparse = False
        if latency is not None and percent is not None:
            sparse = is_sparse(percent, getattr(tally, latency).histogram.count)
        verdict = ThresholdResult(
            self, float(actual), passed=self.allows(actual), latency=latency, sparse=sparse
        )
        if self.operator == "==" and verdict.borderline:
            return replace(verdict, passed=True)
        return verdict

    def _part(self, stats: RunStats) -> Tally:
        if self.size_class is None:
            return stats.total(self.operation)
        names = [size.name for size in stats.run.scenario.sizes]
        if self.size_class not in names:
            from ssbench.core.stats.tally import Tally  # lazy: needs numpy

            return Tally()
        return stats.total(self.operation, names.index(self.size_class))

    def _operations(
        self, scenario: Scenario, size_class: str | None, known: Mapping[int, Operation]
    ) -> list[str]:
        """Names of the operations that a run of the scenario does, on a size class or on any; all
        if that is unknown."""
        sizes = [size for size in scenario.sizes if size_class in (None, size.name)]
        used = [size.profile for size in sizes if size.initial_files]
        if not sizes or not all(used):
            return [row.name for row in of_phase(Phase.RUN)]
        numbers = {number: 0 for profile in used for number, _ in profile}
        return [(known.get(number) or row_of(number)).name for number in numbers]

    def _nothing(self, stats: RunStats) -> str:
        if self.metric == "throughput" and stats.no_bytes:
            return stats.no_bytes
        due = any(mark.rate for mark in stats.run.stages)
        if self.metric == "late" and not due and stats.total().operations:
            return "no operation had a due time: a closed loop"
        if not metric_of(self.metric).scoped and stats.total().operations:
            return f"the stat file has no footer, so {self.metric} is unknown"
        if self.metric.startswith("response_") and self._part(stats).count:
            return "no operation had a due time: a closed loop"
        return "no operation to judge by" if self.metric in METRICS else "no sample to judge by"


def parse_figure(
    text: str, option: str, known: Mapping[int, Operation] | None = OPERATIONS
) -> Threshold:
    """A threshold on this figure, such as ``p99(READ)``, for its metric, operation and size class.

    :param option, known: as of ``Threshold.parse``.
    :raises UsageError: there is no such figure.
    """
    return _Reader(text, option, known).figure()


def thresholds_of(
    scenario: Scenario,
    others: Sequence[Threshold] = (),
    known: Mapping[int, Operation] = OPERATIONS,
) -> tuple[Threshold, ...]:
    """All that a run must meet: the scenario's, and others.

    Those that can't be read are left out, as a stat file may be of a later release; before a run
    ``check_thresholds_of`` refuses them.
    """
    found = []
    for text in scenario.thresholds:
        with suppress(UsageError):
            threshold = Threshold.parse(text, "", known)
            threshold.check(scenario, known=known)
            found.append(threshold)
    return tuple(dict.fromkeys([*found, *others]))


def thresholds_of_run(stats: RunStats, others: Sequence[Threshold] = ()) -> tuple[Threshold, ...]:
    """The same of a run that is over. Of a part of it, those of its scenario that say nothing of
    that part are left out."""
    known = stats.run.operations
    found = thresholds_of(stats.run.scenario, (), known)
    if stats.chosen:
        scoped = [each for each in found if metric_of(each.metric).scoped]
        found = tuple(each for each in scoped if each.judge(stats).actual is not None)
    return tuple(dict.fromkeys([*found, *others]))


def check_thresholds_of(scenario: Scenario, *, open_loop: bool) -> None:
    """:raises ScenarioError: a line, with the key, for each of the scenario's that can't be read,
    or that a run of it can neither meet nor miss."""
    faults = []
    for at, text in enumerate(scenario.thresholds):
        place = f"{scenario.source}: thresholds[{at}]"
        try:
            threshold = Threshold.parse(text, place)
        except UsageError as error:
            faults.append(str(error))
            continue
        try:
            threshold.check(scenario, open_loop=open_loop)
        except UsageError as error:
            faults.append(f"{place}: {error}")
    if faults:
        raise ScenarioError(faults)


class ThresholdResult(Struct, frozen=True):
    """Whether a run met a threshold."""

    threshold: Threshold
    actual: float | None  #: in base units, as ``Threshold.limit``; None: not measured
    passed: bool
    latency: str | None = None  #: attribute of Tally, if a latency was judged
    why: str = ""  #: why ``actual`` is None
    sparse: bool = False  #: whether it is a percentile with too few operations beyond it

    @property
    def borderline(self) -> bool:
        """Whether a percentile is so close to its limit that its error may decide."""
        if self.actual is None or percent_of(self.threshold.metric) is None:
            return False
        return abs(self.actual - float(self.threshold.limit)) <= RELATIVE_ERROR * self.actual


_PLAIN = re.compile(r'[^(),"]+')


def _quoted(name: str) -> str:
    """A size class as it is written in a scope."""
    plain = _PLAIN.fullmatch(name) and name == name.strip() and name.isprintable()
    return name if plain and operation_named(name) is None else json.dumps(name)


def _like(word: str, names: Sequence[str]) -> list[str]:
    """The names of operations, the most similar ones first."""
    near = close_matches(word.upper(), names, len(names)) if names else []
    return [*dict.fromkeys([*near, *names])]


class _Reader:
    """Parses one threshold from left to right; ``_at`` is its position."""

    def __init__(self, text: str, option: str, known: Mapping[int, Operation] | None) -> None:
        self._text = text
        self._option = option
        self._known = known
        self._at = 0

    def threshold(self) -> Threshold:
        metric = self._metric()
        operation, size_class = self._scope(metric)
        begin = self._here()
        sign = self._take(r"[<>=!≤≥~]+")
        if sign not in _OPERATORS:
            right = f"write {_MEANT[sign]}" if sign in _MEANT else "one of < <= > >= =="
            self._fail(
                begin, f"{preview(sign)} is no comparison" if sign else "no comparison there", right
            )
        number = self._number(metric)
        unit = self._unit(metric)
        return Threshold(metric, sign, number, unit, operation, size_class)

    def figure(self) -> Threshold:
        """Without a limit."""
        metric = self._metric()
        operation, size_class = self._scope(metric)
        begin = self._here()
        if rest := self._text[begin:].strip():
            self._fail(begin, f"{preview(rest)} is not expected there", "as in p99(READ) or rate")
        unit = next(iter(metric_of(metric).units))
        return Threshold(metric, ">", Decimal(0), unit, operation, size_class)

    def _metric(self) -> str:
        begin = self._here()
        word = self._take(r"[\w.]+").lower()
        if word in METRICS:
            return word
        word = re.sub(r"(^|_)(avg|average)$", r"\1mean", word)
        match = LATENCY.fullmatch(word)
        if not match:
            wrong = f"{preview(word)} is no metric" if word else "no metric there"
            self._fail(begin, wrong, f"known are {KNOWN}")
        if not match[2]:
            return word
        if not 0 < Decimal(match[2]) <= 100:
            self._fail(begin, f"{preview(word)} is no percentile", _percentile_meant(match[2]))
        return f"{match[1]}p{Decimal(match[2]).normalize():f}"

    def _scope(self, metric: str) -> tuple[Operation | None, str | None]:
        begin = self._here()
        if not self._take(r"\("):
            return None, None
        if metric in METRICS and not METRICS[metric].scoped:
            self._fail(begin, f"{metric} is of the whole run", f"{metric} without brackets")
        words = [self._word()]
        while self._take(","):
            words.append(self._word())
        if not self._take(r"\)"):
            self._fail(self._here(), "the bracket is not closed", 'a ")" after the scope')
        if self._known is None:
            return None, None
        named = [None if quoted else operation_named(word, self._known) for word, quoted in words]
        first = next((index for index, each in enumerate(named) if each is not None), None)
        classes = [word for index, (word, _quoted) in enumerate(words) if index != first]
        if len(classes) > 1:
            wrong = f"neither {preview(classes[0])} nor {preview(classes[1])} is an operation"
            run_rows = [row for row in self._known.values() if row.phase is Phase.RUN]
            names = _like(classes[0], [row.name for row in run_rows])
            self._fail(begin, wrong, f"write (READ, tiny); known are {', '.join(names)}")
        return None if first is None else named[first], classes[0] if classes else None

    def _word(self) -> tuple[str, bool]:
        """A word of a scope, and whether it is in quotes."""
        begin = self._here()
        quoted = self._take(r'"(?:[^"\\]|\\.)*"')
        if quoted:
            try:
                return str(json.loads(quoted)), True
            except ValueError:
                self._fail(begin, f"{preview(quoted)} is no string of JSON", 'as in "tiny"')
        word = self._take(_PLAIN.pattern).strip()
        if not word:
            self._fail(begin, "no word there", "an operation, a size class, or (READ, tiny)")
        return word, False

    def _number(self, metric: str) -> Decimal:
        begin = self._here()
        digits = self._take(r"[0-9]+(?:\.[0-9]+)?")
        if not digits or len(digits) > 20:
            wrong = f"{digits} has too many digits" if digits else "no number there"
            self._fail(begin, wrong, f"as in {metric_of(metric).example}")
        return Decimal(digits)

    def _unit(self, metric: str) -> str:
        begin = self._here()
        rest = self._text[begin:].strip()
        unit = _SAME_UNIT.get(rest, rest)
        units = metric_of(metric).units
        if unit not in units:
            wrong = f"{preview(rest)} is no unit of {metric}" if rest else f"{metric} needs a unit"
            right = ", ".join(known or "none" for known in units)
            self._fail(begin, wrong, f"one of {right}, as in {metric_of(metric).example}")
        return unit

    def _here(self) -> int:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._at

    def _take(self, pattern: str) -> str:
        """The text that the pattern matches here; "" if it does not match."""
        match = re.compile(pattern).match(self._text, self._here())
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _fail(self, at: int, wrong: str, right: str) -> NoReturn:
        raise UsageError(
            f"{self._option} {preview(self._text)}: character {at + 1}: {wrong}; {right}".lstrip()
        )


def _percentile_meant(digits: str) -> str:
    whole = digits.partition(".")[0]
    if len(whole) > 2 and whole.startswith("9"):
        return f"did you mean p{whole[:2]}.{whole[2:]}?"
    return "above p0, at most p100"


_RULE = re.compile(r"(?P<name>[^<>=]*)(?P<sign>[<>]=?)\s*(?P<number>[+-]?[0-9.]+)\s*%\s*")
_MOST_PERCENT = 1e6
_OTHERS = ("first_byte_", "headers_")  #: latencies that are not compared
_KNOWN = "rate, throughput, and p50, p99.9 and the like, also as service_p99 or response_p99"


class ChangeRule(Struct, frozen=True):
    """A condition; ``parse`` of its ``str()`` gives an equal one."""

    metric: str
    operation: str | None
    operator: str
    percent: float  #: of the change

    @classmethod
    def parse(
        cls,
        text: str,
        known: Mapping[int, Operation] | None = OPERATIONS,
        option: str = "--fail-if",
    ) -> ChangeRule:
        """The rule that the text describes.

        :param known: as of ``Threshold.parse``.
        :raises UsageError: what is wrong, and what would be right.
        """
        match = _RULE.fullmatch(text.strip())
        number = Fraction(0)
        if match:
            try:
                number = Fraction(match["number"])
            except ValueError:
                match = None
        if match is None or abs(number) > _MOST_PERCENT:
            raise UsageError(
                f"{option} {preview(text)}: give METRIC, one of < <= > >= and a change in percent, "
                "as in 'p99 > +10%' or 'rate(READ) < -5%'"
            )
        found = parse_figure(match["name"], option, known)
        is_latency = percent_of(found.metric) is not None and not found.metric.startswith(_OTHERS)
        if not is_latency and found.metric not in ("rate", "throughput"):
            raise UsageError(
                f"{option} {preview(text)}: {found.metric} is not compared; compared are {_KNOWN}"
            )
        if found.size_class is not None:
            raise UsageError(
                f"{option} {preview(text)}: size classes are not compared one by one: choose one "
                f"with --size-class {found.size_class}"
            )
        operation = found.operation.name if found.operation is not None else None
        return cls(found.metric, operation, match["sign"], float(number))

    def __str__(self) -> str:
        scope = f"({self.operation})" if self.operation else ""
        return f"{self.metric}{scope} {self.operator} {self.percent:+g}%"

    @property
    def percentile(self) -> float | None:
        """99.9 for ``p99.9``; None if it is no percentile."""
        return percent_of(self.metric)

    def meets(self, ratio: float) -> bool:
        """Whether a change meets it, by its ratio to the first run."""
        change = Fraction(100 * (ratio - 1))
        return _OPERATORS[self.operator](change, Fraction(self.percent))
