"""One case under one load: run it, and put truth and report side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.truth import clients, judge
from benchmarks.truth.cases import CASES, MS
from benchmarks.truth.judge import Figure
from benchmarks.truth.log import Entry

USERS = 64
RATE = 1000
#: An open loop's p99 at least, where the server stalls for a second in every five.
STALL_SHOWS_NS = 900 * MS
#: Of 100 operations 99 start so soon after they are due.
LATE_NS = 1 * MS


_BLIND = (
    "A closed loop can't show the stall: its users wait, and what would have come isn't sent. The"
    " open loop's response time does."
)


@dataclass(frozen=True)
class Row:
    """What is run."""

    case: str
    rate: float = 0.0  #: operations a second; 0: a closed loop
    noop: bool = False  #: against no server at all
    starts: bool = False  #: only the lateness of starts is looked at

    @property
    def name(self) -> str:
        """As the table has it."""
        load = f"open loop, {self.rate:,.0f}/s" if self.rate else f"closed loop, {USERS} users"
        words = "no-op" if self.noop else CASES[self.case].words
        return f"{words}; {load}"


@dataclass
class Outcome:
    """What came of it."""

    row: Row
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wrk: list[tuple[str, float, float]] = field(default_factory=list)
    """Figure, the truth of wrk's own requests, and what wrk said; in ns."""

    @property
    def missed(self) -> list[Figure]:
        """Figures out of their bounds."""
        return [figure for figure in self.figures if not figure.fine]


#: Everything; the last ones are of starts alone.
ROWS = (
    *(Row(case, rate) for case in CASES if case != "swift" for rate in (0.0, RATE)),
    Row("swift", 10_000, noop=True, starts=True),
    Row("swift", 10_000, starts=True),
)


def run(row: Row, seconds: float, looseness: float = 1.0, wrk_seconds: float = 0.0) -> Outcome:
    """Run it once.

    :param looseness: what all bounds of times are multiplied by.
    """
    outcome = Outcome(row)
    with tempfile.TemporaryDirectory(prefix="ssbench-truth-") as folder:
        place = Path(folder)
        options = ["-u", str(USERS), "-r", f"{seconds:g}"]
        if row.rate:
            options += ["--rate", f"{row.rate:g}"]
        if row.noop:
            told = clients.ssbench([*options, "--noop"], place, seconds + 90)
            outcome.figures = [lateness(told, looseness)]
            return outcome
        verify = row.case == "lying" and clients.takes_verify()
        if row.case == "lying" and not verify:
            outcome.notes.append("not run: this ssbench has no --verify")
            return outcome
        options += ["--verify"] if verify else []
        with clients.serving(row.case, place) as server:
            told = clients.ssbench([*options, "-S", server.url, "-T", "t"], place, seconds + 90)
            said = clients.wrk(server.url, place, wrk_seconds) if wrk_seconds else None
            log = server.log()
    if row.starts:
        outcome.figures = [lateness(told, looseness)]
        return outcome
    outcome.figures = figures(row, clients.of_ssbench(log), told, looseness)
    if row.case == "stalled" and not row.rate:
        outcome.notes.append(_BLIND)
    if wrk_seconds:
        _compare_wrk(outcome, clients.of_wrk(log), said)
    return outcome


def figures(
    row: Row, log: Sequence[Entry], told: clients.Told, looseness: float = 1.0
) -> list[Figure]:
    """All that is compared."""
    results, total = told.results, told.report["total"]
    if row.case == "lying":
        lies = sum(entry.lied for entry in log if entry.transaction in results)
        corrupt = sum(e["count"] for e in told.report["errors"] if e["kind"] == "corrupt")
        return [judge.exact("lying ETags", lies, corrupt), judge.exact("status", 4, told.status)]
    found = judge.count_figures(log, results, told.report)
    found.append(judge.strangers(log, set(results) | told.others))
    service = judge.service_times(log, results)
    found += judge.time_figures("service time", service, total["last_byte_latency"], looseness)
    if row.case == "split":
        first = told.report["operations"]["READ"]["first_byte_latency"]
        truth = judge.first_bytes(log, results)
        found += judge.time_figures("first byte", truth, first, looseness)
    if row.rate:
        response, said = judge.response_times(log, results), total["response_time"]
        found += judge.time_figures("response time", response, said, looseness)
        if row.case == "stalled":
            p99_ns = said["percentiles_s"]["99"] * 1e9
            least = min(p99_ns, STALL_SHOWS_NS)
            found.append(Figure("response p99 at least", STALL_SHOWS_NS, least, 0))
    return found


def lateness(told: clients.Told, looseness: float = 1.0) -> Figure:
    """From due to start: what 99 of 100 keep."""
    late = sorted(start - due for due, start, _ in told.results.values())
    return Figure("start after due, p99", 0, judge.quantile(late, 99.0), LATE_NS * looseness)


def _compare_wrk(outcome: Outcome, log: Sequence[Entry], said: clients.WrkSays | None) -> None:
    if said is None:
        outcome.notes.append("wrk: not installed")
        return
    times = sorted(entry.last_ns - entry.got_ns for entry in log)
    outcome.wrk = [("service time mean", sum(times) / len(times), said.mean)]
    outcome.wrk += [
        (f"service time p{percent:g}", judge.quantile(times, percent), value)
        for percent, value in said.percentiles.items()
    ]
