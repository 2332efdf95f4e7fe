"""What reports say of the machines: was the load generator the limit? And of their clocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ssbench.core.stats.headroom import (
    MOST_OF_THE_TIME,
    Cause,
    Finding,
    Headroom,
    HeadroomVerdict,
    HostLoad,
    Who,
)
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.text import plural, printable

#: Cause -> what is said of those seconds, and what helps (a worker; the master).
_WORDS: dict[Cause, tuple[str, str, str]] = {
    Cause.CORE: (
        "used {value:.0f} % of a core",
        "add workers",
        "give the master a larger --batch-size, or a faster core",
    ),
    Cause.CORES: (
        "waited for a core {value:.0f} % of the time",
        "other processes took its host's cores: move it or them",
        "other processes took its host's cores: move it or them",
    ),
    Cause.LATE: (
        "ran its timers {value_ms:.0f} ms late",
        "find out what blocks it",
        "find out what blocks it",
    ),
    Cause.NETWORK: (
        "had its network interface {value:.0f} % full",
        "add hosts",
        "add hosts",
    ),
    Cause.MEMORY: (
        "had {value:.1f} % of its memory left",
        "add memory or hosts",
        "add memory or hosts",
    ),
}
_MOST_SENTENCES = 4
_OF_MACHINES = (Cause.NETWORK, Cause.MEMORY)


def verdict_lines(verdict: HeadroomVerdict) -> Iterator[str]:
    """A sentence for each cause; one where there was none."""
    if verdict.own_failures:
        yield (
            f"The load generator was the bottleneck: {plural(verdict.own_failures, 'operation')}"
            " failed because its own host had no file descriptor, port or memory left (ERRORS says"
            " which): raise ulimit -n or net.ipv4.ip_local_port_range, or add hosts"
        )
    elif verdict.headroom is Headroom.UNKNOWN:
        yield (
            "Load generator: unknown whether it was the bottleneck (no whole second with metrics"
            " of its hosts)"
        )
    for finding in verdict.findings[:_MOST_SENTENCES]:
        yield _sentence(finding)
    more = len(verdict.findings) - _MOST_SENTENCES
    if more > 0:
        yield f"Of the same kind: {more} more (--json has them all)"
    if verdict.headroom is Headroom.ENOUGH:
        host = verdict.hosts[0] if verdict.hosts else None
        busy = f"host: {host.cpu_percent:.0f} % busy" if host else f"{_name(verdict.busiest)}"
        yield (
            "The load generator was not the bottleneck: ssbench used at most"
            f" {_percent(verdict.busiest_loop_percent)} of a core ({busy})"
        )
    yield from other_work_lines(verdict.hosts)


def other_work_lines(hosts: Sequence[HostLoad]) -> Iterator[str]:
    """A sentence for each of the machines whose cores other work took."""
    for host in filter(lambda load: load.taken, hosts):
        yield (
            f"Other work used {host.other_percent:.0f} % of all cores of"
            f" {printable(host.host) or 'a host'}: ssbench waited for a core"
            f" {host.waiting_percent:.0f} % of the time, which is in the latencies, and a store on"
            " that host had less to work with; give the load generator a host of its own"
        )


def _sentence(finding: Finding) -> str:
    said, for_workers, for_master = _WORDS[finding.cause]
    said = said.format(value=finding.value, value_ms=1000 * finding.value)
    who = finding.who
    helps = for_workers if who.worker_id else for_master
    at_times = "" if finding.share >= MOST_OF_THE_TIME else " at times"
    name = f"host {printable(who.host)}" if finding.cause in _OF_MACHINES else _name(who)
    return (
        f"{name[0].upper()}{name[1:]} {said} for {finding.seconds} of {finding.of_seconds} s:"
        f" the load generator was the bottleneck{at_times}; {helps}"
    )


def _name(who: Who | None) -> str:
    if who is None:
        return "nobody"
    host = f" ({printable(who.host)})" if who.host else ""
    return f"worker {printable(who.worker_id)}{host}" if who.worker_id else f"the master{host}"


def _percent(value: float | None) -> str:
    return "N/A" if value is None else f"{value:.0f} %"


def verdict_map(verdict: HeadroomVerdict) -> dict[str, Any]:
    """The same for JSON, in words and figures."""
    return {
        "verdict": verdict.headroom.value,
        "sentences": list(verdict_lines(verdict)),
        "findings": [_finding_map(finding) for finding in verdict.findings],
        "busiest": asdict(verdict.busiest) if verdict.busiest else None,
        "busiest_loop_percent": _rounded(verdict.busiest_loop_percent),
        "busiest_core_percent": _rounded(verdict.busiest_core_percent),
        "loop_lag_max_s": _rounded(verdict.loop_lag_max_s),
        "own_failures": verdict.own_failures,
        "hosts": host_rows(verdict.hosts),
    }


def host_rows(hosts: Sequence[HostLoad]) -> list[dict[str, Any]]:
    """What kept the machines busy; ``taken_by_others`` where other work took the cores."""
    return [
        {
            "host": load.host,
            "cpu_percent": _rounded(load.cpu_percent),
            "other_work_percent": _rounded(load.other_percent),
            "waiting_percent": _rounded(load.waiting_percent),
            "taken_by_others": load.taken,
        }
        for load in hosts
    ]


def _finding_map(finding: Finding) -> dict[str, Any]:
    late = finding.cause is Cause.LATE
    return {
        "cause": finding.cause.value,
        **asdict(finding.who),
        "percent": None if late else _rounded(finding.value),
        "late_s": _rounded(finding.value) if late else None,
        "seconds": finding.seconds,
        "of_seconds": finding.of_seconds,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def clock_rows(stats: RunStats) -> list[dict[str, Any]]:
    """Each worker's clocks, as the master saw them last in the run phase."""
    rows = []
    for (run_id, index), clock in sorted(stats.clocks.items()):
        worker = stats.run.workers.get((run_id, index))
        rows.append(
            {
                "worker_id": worker.worker_id if worker else f"#{index}",
                "host": worker.host if worker else None,
                "corrected_by_s": clock.shift_ns / 1e9,
                "uncertainty_s": clock.uncertainty_ns / 1e9,
                "wall_clock_ahead_s": None if clock.wall_ns is None else clock.wall_ns / 1e9,
            }
        )
    return rows
