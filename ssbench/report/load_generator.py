"""Whether the load generator was the bottleneck, what its hosts did, and where master and workers
spent CPU time (``--profile``): sections and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from ssbench.core.cpu_profile import FunctionTime, call_tree, collapsed, hot_functions, merged
from ssbench.core.records import MASTER, ProfileRecord
from ssbench.core.stats.findings import bottleneck
from ssbench.core.stats.headroom import (
    MOST_OF_THE_TIME,
    Bottleneck,
    Cause,
    Headroom,
    HeadroomVerdict,
    HostLoad,
    ProcessId,
    Shortage,
)
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.text import plural, printable
from ssbench.report.model import (
    COUNT,
    DATA,
    PERCENT,
    SECONDS,
    THROUGHPUT,
    WORD,
    Column,
    Fact,
    Level,
    Note,
    Section,
    Table,
    Unit,
    fact,
    plain_note,
    section_of,
)

_MILLISECONDS = Unit("ms", 1e-3, 3)  #: of seconds
#: Cause -> what a sentence says of those seconds, and what helps.
_CAUSES: dict[Cause, tuple[str, str]] = {
    Cause.CORE: ("used {value:.0f} % of a core", "add workers"),
    Cause.CORES: (
        "waited for a core {value:.0f} % of the time",
        "other processes used its host's cores: give it a host of its own",
    ),
    Cause.LATE: ("ran its timers {value_ms:.0f} ms late", "find out what blocks it"),
    Cause.NETWORK: ("had its network interface {value:.0f} % full", "add hosts"),
    Cause.MEMORY: ("had {value:.1f} % of its memory left", "add memory or hosts"),
}
_FASTER_MASTER = "give the master a larger --batch-size, or a faster core"
_OF_HOSTS = (Cause.NETWORK, Cause.MEMORY)
_MOST_SENTENCES = 4
#: Figure of OF_HOST -> key, unit and heading.
_HOST_FIGURES = {
    "cpu_percent": ("cpu_percent", PERCENT, "CPU"),
    "memory_used_percent": ("memory_percent", PERCENT, "memory"),
    "disk_read_bytes_per_s": ("disk_read", THROUGHPUT, "disk read"),
    "disk_written_bytes_per_s": ("disk_written", THROUGHPUT, "written"),
    "network_received_bytes_per_s": ("received", THROUGHPUT, "net in"),
    "network_sent_bytes_per_s": ("sent", THROUGHPUT, "net out"),
}


def load_generator_section(stats: RunStats) -> Section:
    """Whether it was the limit of the throughput, and why."""
    verdict = stats.verdict()
    whose = bottleneck(stats, verdict)
    shown = list(_notes(verdict, whose))
    words = [note.sentence for note in shown]
    findings = Table.of("findings", [_finding_facts(finding) for finding in verdict.findings])
    busiest = structs.asdict(verdict.busiest) if verdict.busiest else None
    loop, core = _rounded(verdict.busiest_loop_percent), _rounded(verdict.busiest_core_percent)
    lag_s, answer = _rounded(verdict.loop_lag_max_s), verdict.headroom.value
    facts = [
        fact("verdict", answer, WORD, DATA, csv="load_generator"),
        fact("bottleneck", whose.value, WORD, "json"),
        fact("sentences", words, WORD, "json"),
        fact("findings", findings, WORD, "json"),
        fact("busiest", busiest, WORD, "json"),
        fact("busiest_loop_percent", loop, PERCENT, DATA),
        fact("busiest_core_percent", core, PERCENT, DATA),
        fact("loop_lag_max_s", lag_s, SECONDS, DATA),
        fact("own_failures", verdict.own_failures, COUNT, "json"),
        fact("hosts", host_table(verdict.hosts), WORD, "json"),
    ]
    return Section("load_generator", facts=facts, notes=shown)


def _notes(verdict: HeadroomVerdict, whose: Bottleneck) -> Iterator[Note]:
    """A sentence for each cause, or one that there was none; and for each host that was taken."""
    if verdict.own_failures:
        yield Note(
            Level.SEVERE,
            f"The load generator was the bottleneck: {plural(verdict.own_failures, 'operation')}"
            " failed because its own host had no file descriptor, port or memory left (see"
            " ERRORS): raise ulimit -n or net.ipv4.ip_local_port_range, or add hosts",
        )
    elif whose is Bottleneck.UNKNOWN:
        yield Note(
            Level.PLAIN,
            "Load generator: unknown whether it was the bottleneck (no whole second with metrics"
            " of its hosts)",
        )
    if verdict.workers_gone:
        yield Note(
            Level.SEVERE,
            "The load generator was the bottleneck: all its workers were gone before the run's end,"
            " and no user ran without them",
        )
    with_store = {host.host for host in verdict.hosts if host.store_percent is not None}
    for finding in verdict.findings[:_MOST_SENTENCES]:
        yield _finding(finding, finding.who.host in with_store)
    more = len(verdict.findings) - _MOST_SENTENCES
    if more > 0:
        yield Note(Level.PLAIN, f"{more} more findings of this kind (--json has all)")
    if verdict.headroom is Headroom.ENOUGH:
        used = verdict.busiest_loop_percent
        used_text = "N/A" if used is None else f"{used:.0f} %"
        busy = _name(verdict.busiest)
        if verdict.hosts:
            busy = f"host: {verdict.hosts[0].cpu_percent:.0f} % busy"
        had = "was not the bottleneck" if whose is not Bottleneck.NO_STORE else "had cores left"
        text = f"The load generator {had}: ssbench used at most {used_text} of a core ({busy})"
        yield Note(Level.PLAIN, text)
    yield from other_work(verdict.hosts)


def _finding(finding: Shortage, has_store: bool = False) -> Note:
    """:param has_store: the temporary store that ssbench runs is on its host."""
    said, helps = _CAUSES[finding.cause]
    said = said.format(value=finding.value, value_ms=1000 * finding.value)
    who = finding.who
    if finding.cause is Cause.CORE and not who.worker_id:
        helps = _FASTER_MASTER
    if finding.cause is Cause.CORES and has_store:
        helps = "it shares the cores of its host with the temporary store"
    mostly = finding.share >= MOST_OF_THE_TIME
    at_times = "" if mostly else " at times"
    name = f"host {printable(who.host)}" if finding.cause in _OF_HOSTS else _name(who)
    return Note(
        Level.SEVERE if mostly else Level.WARNING,
        f"{name[0].upper()}{name[1:]} {said} for {finding.seconds} of {finding.of_seconds} s:"
        f" the load generator was the bottleneck{at_times}; {helps}",
    )


def _name(who: ProcessId | None) -> str:
    if who is None:
        return "unknown process"
    host = f" ({printable(who.host)})" if who.host else ""
    return f"worker {printable(who.worker_id)}{host}" if who.worker_id else f"the master{host}"


def other_work(hosts: Sequence[HostLoad]) -> Iterator[Note]:
    """A sentence for each host whose cores other processes took, or that ran the store."""
    for host in hosts:
        if host.store_percent is not None:
            yield Note(
                Level.PLAIN,
                f"The temporary store used {host.store_percent:.0f} % of all cores of"
                f" {printable(host.host) or 'this host'}, which ssbench shares with it: figures"
                " show that all works, not how fast a store is",
            )
        if host.taken:
            waited = f"{host.waiting_percent:.0f} %"
            delay = (
                f"ssbench waited for a core {waited} of the time, which adds to the latencies, and "
            )
            yield Note(
                Level.WARNING,
                f"Other processes used {host.other_percent:.0f} % of all cores of"
                f" {printable(host.host) or 'a host'}: {'' if waited == '0 %' else delay}a store on"
                " that host had less CPU; give the load generator a host of its own",
            )


def _finding_facts(finding: Shortage) -> list[Fact]:
    late, value = finding.cause is Cause.LATE, _rounded(finding.value)
    return [
        fact("cause", finding.cause.value, WORD),
        fact("worker_id", finding.who.worker_id, WORD),
        fact("host", finding.who.host, WORD),
        fact("percent", None if late else value, PERCENT),
        fact("late_s", value if late else None, SECONDS),
        fact("seconds", finding.seconds, COUNT),
        fact("of_seconds", finding.of_seconds, COUNT),
    ]


def host_table(hosts: Sequence[HostLoad]) -> Table:
    """What used the cores of the hosts of master and workers."""
    rows = [
        [
            fact("host", load.host, WORD, title="Host"),
            fact("cpu_percent", _rounded(load.cpu_percent), PERCENT, title="CPU"),
            fact("other_work_percent", _rounded(load.other_percent), PERCENT, title="Other work"),
            fact("store_percent", _rounded(load.store_percent), PERCENT, "json"),
            fact("waiting_percent", _rounded(load.waiting_percent), PERCENT, title="Waiting"),
            fact("taken_by_others", load.taken, WORD, title="Taken by others"),
        ]
        for load in hosts
    ]  # fmt: skip
    return Table.of("hosts", rows)


def host_use_section(stats: RunStats) -> Section:
    """What each host did, the store's too if a worker of --metrics-only ran there."""
    rows = []
    for use in stats.hosts.use():
        row = [fact("host", use.host, WORD), fact("processes", use.role, WORD)]
        for name, (key, unit, title) in _HOST_FIGURES.items():
            found = use.figures.get(name)
            mean, most = (_rounded(found.mean), _rounded(found.max)) if found else (None, None)
            row.append(fact(f"{key}_mean", mean, unit, title=title))
            row.append(fact(f"{key}_max", most, unit, title="max"))
        rows.append(row)
    title = "HOSTS (mean, and highest second)" if rows else ""
    return section_of(Table.of("host_use", rows, formats="text json"), title)


def clocks_section(stats: RunStats) -> Section:
    """Each worker's clocks, as the master saw them last in the run phase."""
    rows = []
    for index, clock in sorted(stats.clocks.items()):
        worker = stats.run.workers.get(index)
        ahead_s = None if clock.wall_ns is None else clock.wall_ns / 1e9
        rows.append([
            fact("worker_id", stats.run.worker_id(index), WORD, title="Worker"),
            fact("host", worker and worker.host, WORD, title="Host"),
            fact("corrected_by_s", clock.shift_ns / 1e9, _MILLISECONDS, title="Corrected"),
            fact("uncertainty_s", clock.uncertainty_ns / 1e9, _MILLISECONDS, title="Uncertainty"),
            fact("wall_clock_ahead_s", ahead_s, _MILLISECONDS, title="Wall clock ahead"),
        ])  # fmt: skip
    return section_of(Table.of("clocks", rows, formats="json"))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


_HOTTEST = 10  #: functions in the text
_LEAST_SHARE = 0.01  #: of its processes' CPU time, of a call in the call tree
_SHARE = Unit("%", 0.01, 1, 0.01)
_SMALL_SHARE = Unit("%", 0.01, 2, 0.01)
_CPU_TIME = Unit("s", digits=2)
_OF_FUNCTION = (
    Column("self_percent", _SHARE, "self"),
    Column("total_percent", _SHARE, "total"),
    Column("function", WORD),
)
_OF_CALL = (
    *_OF_FUNCTION[:2],
    Column("depth", COUNT, formats="json"),
    Column("function", WORD, formats="json"),
    Column("call", WORD, "calls", formats="text"),
)


def profile_section(run: RunRecords) -> Section:
    """The hot spots of master and workers, merged by function, of a run that has any."""
    missing = _missing(run)
    sums, tables = [], []
    for role, records in _by_role(run).items():
        stacks = merged(record.stacks for record in records)
        cpu_ns = sum(stacks.values())
        sums.append(_sums(role, records, cpu_ns))
        functions = [_row(each, cpu_ns) for each in hot_functions(stacks)]
        calls = [_row(each, cpu_ns) for each in call_tree(stacks, _LEAST_SHARE * cpu_ns)]
        title = f"Functions of the {role} with the most CPU time of their own"
        top = functions[:_HOTTEST]
        tables += [
            Table(f"{role}_functions", _OF_FUNCTION, functions, formats="json"),
            Table(f"{role}_hottest", _OF_FUNCTION, top, title, formats="text"),
            Table(f"{role}_calls", _OF_CALL, calls, f"Calls of the {role}, from 1 %"),
        ]
    notes = [
        plain_note(
            "CPU time in the run phase, sampled after each 10 ms that a process used; waiting is"
            " not in it."
        ),
        *(
            Note(Level.WARNING, f"{printable(name)} reported no profile", formats="text")
            for name in missing
        ),
    ]
    return Section(
        "profile",
        "PROFILE",
        facts=[fact("missing", missing, WORD, "json")],
        tables=[Table.of("processes", sums, by="role"), *tables],
        notes=notes,
    )


def collapsed_stacks(run: RunRecords) -> Iterator[str]:
    """The profiles of a run, as lines for flamegraph.pl and speedscope."""
    for role, records in _by_role(run).items():
        yield from collapsed(role, merged(record.stacks for record in records))


def _by_role(run: RunRecords) -> Mapping[str, list[ProfileRecord]]:
    found: dict[str, list[ProfileRecord]] = {}
    for index, record in sorted(run.profiles.items()):
        found.setdefault("master" if index < 0 else "workers", []).append(record)
    return found


def _missing(run: RunRecords) -> list[str]:
    """The processes of the run that left no profile."""
    found = [] if MASTER in run.profiles else ["The master"]
    for index, worker in sorted(run.workers.items()):
        if index not in run.profiles:
            found.append(f"Worker {worker.worker_id} ({worker.host}, pid {worker.pid})")
    return found


def _sums(role: str, records: Sequence[ProfileRecord], cpu_ns: int) -> list[Fact]:
    overhead_ns = sum(record.overhead_ns for record in records)
    whole_ns = cpu_ns + overhead_ns
    share = overhead_ns / whole_ns if whole_ns else None
    return [
        fact("role", role, WORD),
        fact("processes", len(records), COUNT),
        fact("samples", sum(record.samples for record in records), COUNT),
        fact("cpu_s", cpu_ns / 1e9, _CPU_TIME, title="CPU time"),
        fact("overhead_percent", share, _SMALL_SHARE, title="sampling"),
    ]  # fmt: skip


def _row(each: FunctionTime, cpu_ns: int) -> dict[str, object]:
    function = printable(each.function)
    return {
        "self_percent": each.self_ns / cpu_ns if cpu_ns else 0.0,
        "total_percent": each.total_ns / cpu_ns if cpu_ns else 0.0,
        "depth": each.depth,
        "function": function,
        "call": "  " * each.depth + function,
    }
