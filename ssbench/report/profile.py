"""Where master and workers spent CPU time, for runs with ``--profile``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ssbench.core.cpu_profile import FunctionTime, call_tree, collapsed, hot_functions, merged
from ssbench.core.records import MASTER, ProfileRecord
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.text import printable
from ssbench.report.model import (
    COUNT,
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
)

_HOTTEST = 10  #: functions in the text
_LEAST_SHARE = 0.01  #: of its processes' CPU time, of a call in the call tree
_SHARE = Unit("%", 0.01, 1, 0.01)
_SMALL_SHARE = Unit("%", 0.01, 2, 0.01)
_CPU_TIME = Unit("s", digits=2)
_OF_FUNCTION = (
    Column("self_percent", _SHARE, "of CPU time, in the function itself", "self"),
    Column("total_percent", _SHARE, "with the functions that it called", "total"),
    Column("function", WORD, "its name, file and line"),
)
_OF_CALL = (
    *_OF_FUNCTION[:2],
    Column("depth", COUNT, "calls above it", formats="json"),
    Column("function", WORD, "its name, file and line", formats="json"),
    Column("call", WORD, "the function, indented by its depth", "calls", formats="text"),
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
            Note(Level.WARNING, f"{printable(name)} reported no profile", {}, "text")
            for name in missing
        ),
    ]
    return Section(
        "profile",
        "PROFILE",
        facts=[fact("missing", missing, WORD, "processes without a profile", "json")],
        tables=[Table.of("processes", sums, by="role"), *tables],
        notes=notes,
    )


def collapsed_stacks(run: RunRecords) -> Iterator[str]:
    """The profiles of a run, as lines for flamegraph.pl and speedscope."""
    for role, records in _by_role(run).items():
        yield from collapsed(role, merged(record.stacks for record in records))


def _by_role(run: RunRecords) -> Mapping[str, list[ProfileRecord]]:
    found: dict[str, list[ProfileRecord]] = {}
    for (_run_id, index), record in sorted(run.profiles.items()):
        found.setdefault("master" if index < 0 else "workers", []).append(record)
    return found


def _missing(run: RunRecords) -> list[str]:
    """The processes of the run that left no profile."""
    profiled_runs = {run_id for run_id, _index in run.profiles}
    found = [
        "The master" for run_id in profiled_runs if (run_id, MASTER) not in run.profiles
    ]  # fmt: skip
    for key, worker in sorted(run.workers.items()):
        if key[0] in profiled_runs and key not in run.profiles:
            found.append(f"Worker {worker.worker_id} ({worker.host}, pid {worker.pid})")
    return found


def _sums(role: str, records: Sequence[ProfileRecord], cpu_ns: int) -> list[Fact]:
    overhead_ns = sum(record.overhead_ns for record in records)
    whole_ns = cpu_ns + overhead_ns
    share = overhead_ns / whole_ns if whole_ns else None
    return [
        fact("role", role, WORD, "master or workers"),
        fact("processes", len(records), COUNT, "that were sampled"),
        fact("samples", sum(record.samples for record in records), COUNT, "taken"),
        fact("cpu_s", cpu_ns / 1e9, _CPU_TIME, "CPU time in the stacks", title="CPU time"),
        fact("overhead_percent", share, _SMALL_SHARE, "of CPU time, spent on sampling",
             title="sampling"),
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
