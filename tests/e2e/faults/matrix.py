"""The fault matrix: a test for each fault, a row of the table for each test.

``make faults`` runs all of them and prints the table; ``make test`` runs those that aren't slow.
A row says what was seen, never what was hoped for, and its sum must come out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from ssbench.core.stats.run_stats import RunStats


@dataclass(frozen=True)
class Account:
    """What became of the operations of a run, as its stat file has it."""

    sent: int
    done: int
    failed: int
    lost: int

    @classmethod
    def of(cls, stats: RunStats) -> Account:
        """Of a whole file; the sum comes out, or this raises."""
        total = stats.total()
        assert stats.run.sent is not None, "the stat file has no footer that counts"
        account = cls(stats.run.sent, total.count, total.errors, stats.run.lost)
        account.check()
        return account

    def check(self) -> None:
        """Each operation is done, failed or lost, and none of them twice."""
        assert self.sent == self.done + self.failed + self.lost, self
        assert min(self.done, self.failed, self.lost) >= 0, self

    def __str__(self) -> str:
        return f"{self.sent} = {self.done} + {self.failed} + {self.lost}"


@dataclass
class Row:
    """A line of the table, filled in by its test."""

    fault: str
    seen: list[str] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)
    recovered_s: float | None = None
    ended: str = "not run"  #: "passed" or "failed"
    _since_s: float | None = None

    def saw(self, what: str) -> None:
        """What happened, in a few words that the test has made sure of."""
        self.seen.append(what)

    def accounted(self, stats: RunStats) -> Account:
        """Take the sum of a run along, and make sure of it."""
        account = Account.of(stats)
        self.accounts.append(account)
        return account

    def strike(self) -> None:
        """The fault begins, or ends, now: what counts as recovery is counted from here."""
        self._since_s = time.monotonic()

    def recovered(self) -> float:
        """All is well again, or the run is over. Gives the seconds since ``strike``."""
        assert self._since_s is not None, "nothing was struck"
        self.recovered_s = time.monotonic() - self._since_s
        return self.recovered_s

    def cells(self) -> tuple[str, str, str, str, str]:
        """As text: fault, what happened, the sums, seconds to recover, how the test ended."""
        return (
            self.fault,
            "; ".join(self.seen) or "-",
            ", ".join(map(str, self.accounts)) or "-",
            "-" if self.recovered_s is None else f"{self.recovered_s:.1f}",
            self.ended,
        )


HEAD = ("Fault", "What happened", "sent = done + failed + lost", "s to recover", "")


def table(rows: Iterable[Row]) -> str:
    """The rows as a table of Markdown."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "| "
        + " | ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in (lines[0], rule, *lines[1:])
    )
