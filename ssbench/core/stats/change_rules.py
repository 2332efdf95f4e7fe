"""Conditions that no change of a comparison may meet: ``p99(READ) > +10%``, ``rate < -5%``.

::

    rule = metric [ "(" operation ")" ] operator number "%"

Metric and operation are as in thresholds (``core.stats.thresholds``). The number is the
change against the first run in percent, below 0 for less.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct

from ssbench.core.errors import UsageError
from ssbench.core.operations import OPERATIONS, Operation
from ssbench.core.stats.thresholds import parse_figure, percent_of
from ssbench.core.units import preview

if TYPE_CHECKING:
    from ssbench.core.stats.compare import Change, Comparison

_RULE = re.compile(r"(?P<name>[^<>=]*)(?P<sign>[<>=]+)\s*(?P<number>[+-]?[0-9.]+)\s*%\s*")
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
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
        if match is None or match["sign"] not in _OPERATORS or abs(number) > _MOST_PERCENT:
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
        return _OPERATORS[self.operator](100 * (ratio - 1), self.percent)

    def judge(self, found: Comparison) -> Iterator[JudgedChange]:
        """Each further run, or side, against the first: a change that meets the rule fails if it is
        more than noise, and one that can't be judged fails, too."""
        row = found.row(self.metric, self.operation)
        for place, name in enumerate(found.names[1:]):
            change = row.changes[place] if row else None
            yield self._judged(change, name)

    def _judged(self, change: Change | None, name: str) -> JudgedChange:
        if change is None or change.ratio is None:
            return JudgedChange(self, name, False, "not measured")
        verdict = change.verdict
        text = f"{100 * (change.ratio - 1):+.1f} %"
        if change.low is not None and change.high is not None:
            low, high = (f"{100 * (each - 1):+.1f}" for each in (change.low, change.high))
            text += f" ({low} to {high} %)"
        known = verdict.name in ("NOISE", "REAL")
        failed = not known or (verdict.name == "REAL" and self.meets(change.ratio))
        return JudgedChange(self, name, not failed, f"{text}: {verdict.value}")


class JudgedChange(Struct, frozen=True):
    """Whether a change fails by a rule."""

    rule: ChangeRule
    side: str  #: the run, or side, that was compared with the first
    passed: bool
    text: str  #: the change
