"""Runs one case under one load, and compares report and truth."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import sub
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import nginx
from benchmarks.truth import clients, judge
from benchmarks.truth.cases import CASES, MS
from benchmarks.truth.judge import Figure
from benchmarks.truth.log import Entry
from benchmarks.truth.place import SERVER, placed

USERS = 64
RATE = 1000
#: An open loop's p99 at least, where the server stalls for a second in every five.
STALL_SHOWS_NS = 900 * MS
_OVERLOAD_S = 4.0
#: Of 100 operations 99 start so soon after they are due.
LATE_NS = 1 * MS


_BLIND = (
    "A closed loop can't show the stall: its users wait, and what would have come isn't sent. The"
    " open loop's response time does."
)


@dataclass(frozen=True)
class Row:
    """A case and its load."""

    case: str = ""  #: a name of CASES; "": only the lateness of starts is looked at
    rate: float = 0.0  #: operations a second; 0: a closed loop
    noop: bool = False  #: against no server at all
    users: int = USERS
    warmup_s: float = 0.0
    only_rate: bool = False  #: only the average rate is looked at, and what is said of it
    arrivals: str = "uniform"
    count: int = 0  #: operations that end the run; 0: its time does
    stages: tuple[float, ...] = ()  #: the rates of stages of equal length
    missed: bool = False  #: whether an open loop misses its rate

    @property
    def name(self) -> str:
        """Its name in the table."""
        load = f"open loop, {self.rate:,.0f}/s" if self.rate else f"closed loop, {self.users} users"
        if self.stages:
            load = f"open loop, stages of {', '.join(f'{rate:g}' for rate in self.stages)}/s"
        load += f" ({self.arrivals})" if self.arrivals != "uniform" else ""
        load += f", {self.count} operations" if self.count else ""
        load += f", warm-up of {self.warmup_s:g} s" if self.warmup_s else ""
        fast = "no-op" if self.noop else "nginx"
        return f"{CASES[self.case].words if self.case else fast}; {load}"

    @property
    def lies(self) -> bool:
        """Whether READs get wrong responses; then only their number is compared."""
        return bool(self.case and CASES[self.case].lie_share)


@dataclass
class Outcome:
    """Figures of a row, and what is wrong with it."""

    row: Row
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    not_run: str = ""  #: why
    not_judged: str = ""  #: why a bound that is missed proves nothing
    wrk: list[tuple[str, float, float]] = field(default_factory=list)
    """Figure, the truth of wrk's own requests, and what wrk reports, in ns."""

    @property
    def missed(self) -> list[Figure]:
        """Figures beyond their bounds, if these are judged."""
        return [each for each in self.figures if not each.fine and not self.not_judged]


_OF_RATES = {"swift", "half-second", "limited", "rare"}  #: cases with loads of their own
#: Everything; without a delay we or the server are at our limit. The last ones are of starts alone.
ROWS = (
    *(Row(case, rate) for case in CASES if case not in _OF_RATES for rate in (0.0, RATE)),
    Row("half-second", 100, only_rate=True),
    Row("half-second", 100, warmup_s=2.3, only_rate=True),
    Row("half-second", users=8, only_rate=True),
    Row("half-second", users=8, warmup_s=2.3, only_rate=True),
    Row("half-second", 100, count=100, only_rate=True),
    Row("limited", 500, users=2000, only_rate=True, missed=True),
    Row("limited", 500, users=2000, arrivals="poisson", only_rate=True, missed=True),
    Row("limited", 500, users=2000, count=2000, only_rate=True, missed=True),
    Row("limited", users=2000, stages=(100, 400), only_rate=True, missed=True),
    Row("limited", 180, users=2000, only_rate=True),
    Row("rare", 2400, only_rate=True),
    Row("swift"),
    Row(rate=10_000, noop=True),
    Row(rate=10_000),
)


def run(row: Row, seconds: float, looseness: float = 1.0, wrk_seconds: float = 0.0) -> Outcome:
    """Run it once.

    :param looseness: what all bounds of times are multiplied by.
    :param wrk_seconds: how long wrk runs; 0: not at all.
    """
    with tempfile.TemporaryDirectory(prefix="ssbench-truth-") as folder:
        # An overload grows for as long as it lasts, and is waited for.
        seconds = min(seconds, _OVERLOAD_S) if row.missed else seconds
        options = ["-u", str(row.users)]
        options += ["-o", str(row.count)] if row.count else ["-r", f"{seconds:g}"]
        options += ["--arrivals", row.arrivals] if row.rate else []
        options += ["--warmup", f"{row.warmup_s:g}"] if row.warmup_s else []
        options += ["--rate", f"{row.rate:g}"] if row.rate else []
        stages = [{"seconds": seconds / len(row.stages), "rate": rate} for rate in row.stages]
        if stages:
            options = ["-u", str(row.users)]
        keys: dict[str, Any] = {"stages": stages} if stages else {}
        if row.missed:  # what removes objects would be short of them
            keys["crud_profile"] = [0, 1, 0, 0]
        ours = _Ours(Path(folder), options, seconds + 90, keys)
        if row.case:
            return _against_truth(row, ours, looseness, wrk_seconds)
        if row.noop:
            return _of_starts(row, ours.told("--noop"), looseness)
        return _against_nginx(row, ours, looseness)


class _Ours(NamedTuple):
    """ssbench, about to be run."""

    place: Path
    options: list[str]
    timeout_s: float
    keys: dict[str, Any] = {}  #: more keys of the scenario

    def told(self, *options: str) -> clients.Reported:
        return clients.ssbench([*self.options, *options], self.place, self.timeout_s, self.keys)


def _against_nginx(row: Row, ours: _Ours, looseness: float) -> Outcome:
    if nginx.find() is None:
        return Outcome(row, not_run=nginx.NOT_HERE)
    with placed(SERVER):
        server = nginx.start()
    with server:
        return _of_starts(row, ours.told("-S", server.url, "-T", "t"), looseness)


def _of_starts(row: Row, told: clients.Reported, looseness: float) -> Outcome:
    """How late operations start, which is not judged where the report says that no core was left.

    Linux then stops processes with real-time priority for 50 ms of each second, too.
    """
    outcome, generator = Outcome(row, [lateness(told, looseness)]), told.report["load_generator"]
    if outcome.missed and generator["verdict"] == "limit":
        outcome.not_judged = f"not judged: {generator['sentences'][0]}"
    return outcome


def _against_truth(row: Row, ours: _Ours, looseness: float, wrk_seconds: float) -> Outcome:
    outcome = Outcome(row)
    options = ["--verify"] if row.lies else []
    # wrk has no rate, and doesn't look at what it gets. Without a delay the server is slow.
    wanted = wrk_seconds and not (row.rate or row.lies or row.only_rate or row.case == "swift")
    with clients.serving(row.case, ours.place) as server:
        told = ours.told(*options, "-S", server.url, "-T", "t")
        said = clients.wrk(server.url, ours.place, wrk_seconds) if wanted else None
        log = server.log()
    outcome.figures = figures(row, clients.of_ssbench(log), told, looseness)
    if row.case == "stalled" and not row.rate:
        outcome.notes.append(_BLIND)
    if wanted:
        _compare_wrk(outcome, clients.of_wrk(log), said)
    return outcome


def figures(
    row: Row, log: Sequence[Entry], told: clients.Reported, looseness: float = 1.0
) -> list[Figure]:
    """All figures of a run."""
    results, total = told.results, told.report["total"]
    if row.lies:
        lies = sum(entry.lied for entry in log if entry.transaction in results)
        corrupt = sum(e["count"] for e in told.report["errors"] if e["kind"] == "corrupt")
        if CASES[row.case].lie == "etag":  # right content: a store that encrypts does the same
            noted = any("ETag" in str(note) for note in told.report["notes"])
            return [
                judge.exact("right content called corrupt", 0, corrupt),
                judge.exact("said of ETags", bool(lies), noted),
                judge.exact("status", 0, told.status),
            ]
        if CASES[row.case].lie == "break":
            return judge.broken_figures(log, results, told.report)
        return [judge.exact("lies found out", lies, corrupt), judge.exact("status", 4, told.status)]
    rate = judge.rate_figure(
        log, results, total, (told.marks_ns[0], told.marks_ns[-1]), row.warmup_s
    )
    if row.only_rate:
        (worker,) = told.report["by_worker"]  # a part that is all of it
        of_worker = rate._replace(name="by worker, operations/s", ours=worker["requests_per_s"])
        return [rate, of_worker, *_of_arrivals(row, log, told)]
    found = [rate, *judge.count_figures(log, results, told.report)]
    found.append(judge.strangers(log, set(results) | told.others))
    service = judge.service_times(log, results)
    found += judge.time_figures("service time", service, total["last_byte_latency"], looseness)
    if row.case in ("split", "drip"):
        first = told.report["operations"]["READ"]["first_byte_latency"]
        truth = judge.first_bytes(log, results, told.uncertain)
        found.append(judge.left_out(truth, told.uncertain))
        found += judge.time_figures("first byte", truth, first, looseness)
    if row.rate:
        response, said = judge.response_times(log, results), total["response_time"]
        found += judge.time_figures("response time", response, said, looseness)
        if row.case == "stalled":
            p99_ns = said["percentiles_s"]["99"] * 1e9
            least = min(p99_ns, STALL_SHOWS_NS)
            found.append(Figure("response p99 at least", STALL_SHOWS_NS, least, 0))
    return found


def _of_arrivals(row: Row, log: Sequence[Entry], told: clients.Reported) -> Iterator[Figure]:
    """What is said of an open loop's rate."""
    if not (row.rate or row.stages):
        return
    run, results, marks = told.report["run"], told.results, told.marks_ns
    dues = sorted(due for due, _start, _last in results.values())
    yield judge.exact("operations due", sum(due >= marks[0] + row.warmup_s * 1e9 for due in dues),
                      run["due"])  # fmt: skip
    yield judge.exact("rate missed", row.missed, run["rate_missed"])
    if row.rate and row.arrivals == "uniform":
        drawn = [marks[0] + round(n * 1e9 / row.rate) for n in range(len(dues))]
        yield judge.exact("due times as drawn", 0, max(map(abs, map(sub, dues, drawn))))
    for at, stage in enumerate(told.report["stages"] if row.stages else ()):
        span = marks[at], marks[at + 1]
        name = f"stage {at + 1}, operations/s"
        yield judge.rate_figure(log, results, stage, span)._replace(name=name)


def lateness(told: clients.Reported, looseness: float = 1.0) -> Figure:
    """The 99th percentile from due to start."""
    late = sorted(told.late_ns)
    return Figure("start after due, p99", 0, judge.quantile(late, 99.0), LATE_NS * looseness)


def _compare_wrk(outcome: Outcome, log: Sequence[Entry], said: clients.WrkReport | None) -> None:
    if said is None:
        outcome.notes.append("wrk: not installed")
        return
    times = sorted(entry.last_ns - entry.got_ns for entry in log)
    outcome.wrk = [("service time mean", sum(times) / len(times), said.mean)]
    outcome.wrk += [
        (f"service time p{percent:g}", judge.quantile(times, percent), value)
        for percent, value in said.percentiles.items()
    ]
