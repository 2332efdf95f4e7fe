"""The summary that ends a report: what a reader wants to know first, of eight topics at most.

It is made from the report's other sections, and computes no figure of its own.
"""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any

from ssbench.core.sparse import Sparse
from ssbench.core.stats.headroom import Bottleneck
from ssbench.core.text import due_text, plural, printable, shortened
from ssbench.report.model import (
    COUNT,
    RATE,
    SECONDS,
    THROUGHPUT,
    WORD,
    Fact,
    Row,
    Section,
    Table,
    change_text,
    fact,
    judged_latency,
    latency_name,
    latency_text,
    rate_text,
)

if TYPE_CHECKING:
    from ssbench.core.stats.intervals import Sides  # loads numpy

WIDTH = 80  #: of a line, its topic included
TOPIC_WIDTH = 12
_MOST = 8  #: topics
_TEXT_WIDTH = WIDTH - TOPIC_WIDTH
_NAME_WIDTH = 60  #: of a scenario: the only text that is cut

_NO_LATENCY = "none: no operation succeeded"
_BY_THE_REST = " by the results left"
_INCOMPLETE = {"cut off", "damaged"}  #: endings of runs with missing results


def of_run(sections: Mapping[str, Section], steady: bool | None, stats_file: str | None) -> Section:
    """The summary of a run.

    :param sections: those of its report, by key.
    :param steady: whether its rate was; None: unknown.
    :param stats_file: where its results are; None: no line says so.
    """
    run, total = sections["run"].row, sections["total"].row
    generator = sections["load_generator"].row
    errors = sections["errors"].tables[0].rows
    thresholds = sections["thresholds"].tables[0].rows
    stages = sections["stages"].tables[0].rows
    latency, name = judged_latency(total), latency_name([total])
    p50, p99, worst = (latency.percentiles[percent] for percent in (50, 99, 100))
    findings = [note.figures for note in sections["steadiness"].notes or ()]
    warmup_s = max([run["warmup_s"], *(stage["warmup_s"] for stage in stages)])
    missed = [row for row in thresholds if not row["passed"]]
    throughput = _throughput(total["requests_per_s"], total["moved_bytes_per_s"], _due(run))
    if run["damage"] and total["requests_per_s"] is not None:
        throughput = f"at least {throughput}"  # time counts whose results are missing
    lines = [
        ("Throughput", throughput),
        ("Latency", f"{_latency(p50, p99, worst)} ({name})" if latency.count else _NO_LATENCY),
        (
            "Steadiness",
            _steadiness(
                steady,
                [each for each in findings if "finding" in each],
                warmup_s + run["cooldown_s"],
                [row["name"] for row in stages],
            ),
        ),
        ("Failures", _failures(run, total, errors, is_complete=run["complete"])),
        ("Bottleneck", _bottleneck(run, generator)),
        ("Run", _run(run, sections["settings"].row, total, stages)),
    ]
    if "part" in sections:
        lines.insert(0, ("Part", sections["part"].row["line"]))
    by = "" if run["complete"] else _BY_THE_REST
    if missed:
        text = f"missed {len(missed)} of {len(thresholds)}{by}: "
        names = [printable(row["threshold"]) for row in missed]
        lines.append(("Thresholds", text + _listed(names, _TEXT_WIDTH - len(text))))
    elif thresholds:
        met = "met" if len(thresholds) == 1 else f"all {len(thresholds)} met"
        lines.append(("Thresholds", met + by))
    figures = [
        fact("operations_per_s", total["requests_per_s"], RATE, "json"),
        fact("moved_bytes_per_s", total["moved_bytes_per_s"], THROUGHPUT, "json"),
        fact("latency", name, WORD, "json"),
        *_in_seconds(p50, p99, worst),
        fact("steady", steady, WORD, "json"),
        fact("operations", _completed(total), COUNT, "json"),
        fact("errors", total["errors"], COUNT, "json"),
        fact("load_generator", generator["verdict"], WORD, "json"),
        fact("users", run["users"], COUNT, "json"),
        fact("users_ran", run["users_ran"], COUNT, "json"),
        fact("missed", [row["threshold"] for row in missed], WORD, "json"),
    ]
    return _section(lines, figures, stats_file)


def _section(
    lines: Sequence[tuple[str, str]], figures: Sequence[Fact], results: str | None
) -> Section:
    rows = [(topic, printable(text)) for topic, text in lines]
    if results is not None:
        if results.startswith("/tmp/") and len(rows) < _MOST - 1:  # nosec B108 # only a message
            rows.append(("Kept", "until a reboot empties /tmp; --results-dir sets another folder"))
        rows.append(("Results", printable(results)))  # a path that is cut is of no use
    table = [[fact("topic", topic, WORD), fact("text", text, WORD)] for topic, text in rows]
    figures = [*figures, fact("stats_file", results, WORD, "json")]
    return Section("summary", facts=figures, tables=[Table.of("lines", table)], formats="text json")


def _listed(parts: Sequence[str], width: int, of: str = "") -> str:
    """As many of the parts as fit, and how many more there are.

    :param of: what they are, where "1 more" alone would be ambiguous.
    """
    shown = ""
    for at, part in enumerate(parts):
        longer = f"{shown}, {part}" if shown else part
        left = len(parts) - at
        more = f" and {left} more" + (f" {of}{'s' * (left > 1)}" if of else "")
        if at and len(longer) > width - (len(more) if at + 1 < len(parts) else 0):
            return f"{shown}{more}"
        shown = longer
    return shown


def _throughput(rate: float | None, moved: float | None, due: str = "") -> str:
    """``93.1 operations/s (100 due, 93 % in time), 4.21 MB/s``; bytes only where they are known."""
    shown = "unknown rate" if rate is None else f"{rate:,.1f} operations/s"
    return f"{shown}{due}" + ("" if moved is None else f", {moved / 1e6:,.2f} MB/s")


def _due(run: Row) -> str:
    """Of an open loop, what fell due, and how much of that was complete by the load's end."""
    rate = run.get("due_per_s")
    if rate is None:
        return ""
    share = _share(run["due_completed"], run["due"])
    # With the digits of the throughput, but no ".0"; all digits where these would be 0.
    shown, missed = due_text(rate), "RATE MISSED: " * run["rate_missed"]
    return f" ({missed}{shown} due, {share} % in time)"


def _share(part: int, whole: int) -> str:
    """In percent, but 100 only for all."""
    return "100" if part == whole else f"{min(100 * part / whole, 99.9):.3g}"


def _latency(p50: float | None, p99: float | None, worst: float | None) -> str:
    return f"p50 {latency_text(p50)}, p99 {latency_text(p99)}, worst {latency_text(worst)}"


def _in_seconds(p50: float | None, p99: float | None, worst: float | None) -> Iterator[Fact]:
    for key, value in (("p50_s", p50), ("p99_s", p99), ("max_s", worst)):
        yield fact(key, None if value is None else value / 1e9, SECONDS, "json")


def _steadiness(
    steady: bool | None, found: Sequence[Row], excluded_s: float, stages: Sequence[str]
) -> str:
    """Whether the rate was steady, and the gravest finding in words.

    :param excluded_s: the longest warm-up, and the cool-down.
    :param stages: their names; "" of those without.
    """
    if steady:
        return "steady: no stall, drift or jump of the rate"
    if not found:
        return "unknown: no operation succeeded"
    if found[0]["finding"] == "incomplete":
        return "unknown: results are missing from the stat file"
    grave = [each for each in found if each["finding"] != "too_short"]
    first = (grave or found)[0]
    if not grave:
        what = "run" if first["stage"] is None else "run each stage"
        why = f"operations take about {first['window_s']} s; " if first["window_s"] > 1 else ""
        if first["few"]:
            why = "too few operations; "
        return (
            f"unknown: {why}{what} for {ceil(first['wanted'] + 2 + excluded_s):,} s or more to tell"
        )
    of_stage = ""
    if first["stage"] is not None:
        of_stage = f"stage {printable(stages[first['stage'] - 1]) or first['stage']}: "
    more = f" (and {len(grave) - 1} more)" if len(grave) > 1 else ""
    return f"{of_stage}{_finding(first)}{more}"


def _finding(finding: Row) -> str:
    kind = finding["finding"]
    if kind == "stalled":
        return (
            f"stalled in {finding['stalled']} of {finding['seconds']} s"
            f" (longest {finding['longest']} s)"
        )
    what = finding["what"]
    if kind == "drifted":
        word = "rose" if finding["change"] > 0 else "fell"
        return f"{what}/s {word} by {100 * abs(finding['change']):.0f} % during the run"
    if kind == "two_levels":
        low, high = (rate_text(what, finding[key]) for key in ("low", "high"))
        return f"{what} had two levels: {low} and {high}"
    return f"{what}/s varied by {100 * finding['spread']:.0f} % from second to second"


def _failures(run: Row, total: Row, errors: Sequence[Row], *, is_complete: bool = True) -> str:
    """``12 of 3,456 operations (0.35 %): 10 status 503, 2 network timeout``."""
    counts = Counter[str]()
    for row in errors:
        status = f" {row['status']}" if row["status"] and row["kind"] == "status" else ""
        counts[f"{row['kind']}{status}"] += row["count"]
    text = _failed(total["errors"], _completed(total))
    figures = [(run["lost"], "lost"), (run["late"], "never started")]
    if races := total.get("lost_races"):
        figures.append((races, "lost a race" if races == 1 else "lost races"))
    others = [f"{count:,} {words}" for count, words in figures if count]
    if not is_complete:
        others.append("the file lacks the rest")
    rest = f"; {', '.join(others)}" if others else ""
    if counts:
        causes = [f"{count:,} {printable(cause)}" for cause, count in counts.most_common()]
        text = f"{text}: {_listed(causes, _TEXT_WIDTH - len(text) - len(rest) - 2, 'cause')}"
    return text + rest


def _completed(total: Row) -> int:
    races: int = total.get("lost_races", 0)
    return races + int(total["count"]) + int(total["errors"])


def _failed(errors: int, operations: int) -> str:
    if not errors:
        return f"none of {plural(operations, 'operation')}"
    percent = 100 * errors / operations
    share = (
        "below 0.01" if percent < 0.01 else f"{percent:.2f}" if percent < 10 else f"{percent:.0f}"
    )
    return f"{errors:,} of {plural(operations, 'operation')} ({share} %)"


#: Bottleneck -> what a line says of it.
_WHOSE = {
    Bottleneck.NO_STORE: "ssbench itself: no store was involved (--noop)",
    Bottleneck.GENERATOR: "the load generator",
    Bottleneck.GENERATOR_AT_TIMES: "the load generator at times",
    Bottleneck.OTHERS: "other processes",
    Bottleneck.BEHIND: "the store, or too few users",
    Bottleneck.RATE: "none: the store kept up with the rate",
    Bottleneck.CLOSED_LOOP: "the store or the number of users",
    Bottleneck.UNKNOWN: "unknown: no metrics of the load generator's hosts",
}
#: Cause of a finding -> what was short, with the process in front.
_SHORT = {
    "core": "{who} used {percent:.0f} % of a core",
    "cores": "others used its cores (it waited {percent:.0f} %)",
    "late": "{who} ran its timers late",
    "network": "the network of {who} was {percent:.0f} % full",
    "memory": "{who} had {percent:.1f} % of its memory left",
}


#: Keys of a scenario that limit a closed loop by themselves.
_OWN_LIMITS = {"bandwidth": "the bandwidth limit", "think_time": "the think time"}


def _bottleneck(run: Row, generator: Row) -> str:
    """Whose limit it was, and what tells so."""
    whose = Bottleneck(generator["bottleneck"])
    words = _WHOSE[whose]
    if whose in (Bottleneck.NO_STORE, Bottleneck.UNKNOWN):
        return words
    if generator["own_failures"]:
        return f"{words}: out of descriptors, ports or memory"
    if run["short_of_users"] and run["users_ran"] == 0:
        return f"{words}: all its workers were gone"
    if whose in (Bottleneck.GENERATOR, Bottleneck.GENERATOR_AT_TIMES):
        finding = generator["findings"].rows[0]
        who = f"worker {finding['worker_id']}" if finding["worker_id"] else "the master"
        if finding["cause"] in ("network", "memory"):
            who = f"host {finding['host']}"
        percent = finding["percent"] or 0
        stores = [row for row in generator["hosts"].rows if row["store_percent"] is not None]
        if finding["cause"] == "cores" and stores:
            return f"{words}: it shares cores with the temporary store (waited {percent:.0f} %)"
        return f"{words}: {_SHORT[finding['cause']].format(who=who, percent=percent)}"
    loop = generator["busiest_loop_percent"]
    used = "ssbench had cores left" if loop is None else f"ssbench used {loop:.0f} % of a core"
    if whose is Bottleneck.OTHERS:
        host = next(each for each in generator["hosts"].rows if each["taken_by_others"])
        return f"{words} used {host['other_work_percent']:.0f} % of {host['host']}; {used}"
    if whose is Bottleneck.CLOSED_LOOP:
        own = [text for key, text in _OWN_LIMITS.items() if (run["scenario"] or {}).get(key)]
        words = f"{', '.join(['the store', *own])} or the number of users"
    return f"{words}; {used}"


def _run(run: Row, settings: Row, total: Row, stages: Sequence[Row]) -> str:
    """``2 of 50 users on 1 worker, 10.0 s, interrupted: Small test scenario``."""
    asked = sorted({stage["users"] for stage in stages if stage["users"] is not None})
    asked += [stage["users_to"] for stage in stages if stage["users_to"] is not None]
    asked.sort()
    users = "unknown users" if run["users"] is None else plural(run["users"], "user")
    if run["short_of_users"]:
        users = f"{run['users_ran']} of {users}"
    elif len(asked) > 1:
        users = f"{asked[0]} to {users}"
    if len(stages) > 1:
        users = f"{users} in {len(stages)} stages"
    seconds = total["rate_window_s"]
    workers = settings["worker_count"]  # 0 where the file was cut off before they are named
    parts = [f"{users} on {plural(workers, 'worker') if workers else 'unknown workers'}"]
    parts += [] if seconds is None else [f"{seconds:.1f} s"]
    parts += [] if run["ended"] == "complete" else [run["ended"]]
    return f"{', '.join(parts)}: {shortened(settings['scenario_name'], _NAME_WIDTH)}"


def of_series(
    rows: Sequence[Row], *, over: str, name: str, slo: str, search: Row | None
) -> Section:
    """The summary of a series; its figures are those of the best load, the means of its runs.

    :param rows: its steps.
    :param over: users or rate.
    :param slo: the thresholds in words; "" for none.
    :param search: largest_kept, smallest_broken and complete, where the load was searched for.
    """
    counted = [row for row in rows if row["counts"]]
    kept = [row for row in counted if row["kept"]] if slo else counted
    if search is not None:
        kept = [row for row in kept if row[over] == search["largest_kept"]]
    runs = _best_load(kept, over)
    best = rate = moved = p50 = p99 = worst = None
    throughput = latency = "no step met the thresholds"
    if runs:
        best = runs[0][over]
        kind = "response" if all(row.get("response_p50_s") for row in runs) else "service"
        rate, moved = (_mean(runs, key) for key in ("operations_per_s", "bytes_per_s"))
        p50, p99 = (_mean(runs, f"{kind}_{name}_s") for name in ("p50", "p99"))
        worst = max((row[key] for row in runs if row.get(key := f"{kind}_max_s")), default=None)
        load = _loads([best], over)
        throughput = (
            f"{_throughput(rate, moved)}, {f'at {load} due' if over == 'rate' else f'with {load}'}"
            + (f" (mean of {len(runs)} runs)" if len(runs) > 1 else "")
        )
        latency = _latency(p50, p99, worst)
    least, most = min(row[over] for row in rows), max(row[over] for row in rows)
    short = len(rows) - len(counted)
    lines = [
        ("Throughput", throughput),
        ("Latency", latency),
        ("Steadiness", _step_steadiness(rows, over)),
        ("Failures", _step_failures(rows)),
        ("Bottleneck", _step_bottlenecks(rows, over)),
        (
            "Run",
            f"{plural(len(rows), 'step')}, {_loads((least, most), over)}"
            + (f", {short} not counted (users missing)" if short else "")
            + f": {shortened(name, _NAME_WIDTH)}",
        ),
    ]
    if search is not None:
        lines.append(("Limit", _limit(search, over, slo)))
    elif slo:
        met = [row[over] for row in kept]
        where = f": {_loads(met, over)}" if met else ""
        lines.append(("Thresholds", f"met in {len(met)} of {len(rows)} steps{where}"))
    figures = [
        fact("best", best, COUNT, "json"),
        fact("operations_per_s", rate, RATE, "json"),
        fact("moved_bytes_per_s", moved, THROUGHPUT, "json"),
        *_in_seconds(p50, p99, worst),
    ]
    files = [row["stats_file"] for row in rows]
    folder = posixpath.dirname(files[0]) or "."
    return _section(lines, figures, f"{folder}/ ({plural(len(set(files)), 'stat file')})")


def _best_load(rows: Sequence[Row], over: str) -> list[Row]:
    """The runs of the load with the highest mean rate; none if there are no rows."""
    by_load: defaultdict[float, list[Row]] = defaultdict(list)
    for row in rows:
        by_load[row[over]].append(row)
    return max(by_load.values(), key=lambda runs: _mean(runs, "operations_per_s") or 0, default=[])


def _mean(runs: Sequence[Row], key: str) -> float | None:
    """The geometric mean of a figure, as of repeated runs; None if not all have it."""
    values = [row[key] for row in runs if row.get(key) is not None]
    if len(runs) == 1 or len(values) < len(runs):
        return values[0] if len(values) == len(runs) else None
    found = geometric_mean(values) if all(values) else fmean(values)
    return Sparse(found) if any(isinstance(value, Sparse) for value in values) else found


def _loads(loads: Sequence[float], over: str) -> str:
    """``20, 40 users``, ``100 operations/s``; each load once."""
    if isinstance(loads, list):
        loads = list(dict.fromkeys(loads))
    elif loads[0] == loads[-1]:
        loads = [loads[0]]
    unit = "operations/s" if over == "rate" else "user" if loads == [1] else "users"
    several = f"{loads[0]:g} to {loads[-1]:g}" if isinstance(loads, tuple) else ""
    return f"{several or _listed([f'{load:g}' for load in loads], 30)} {unit}"


def _step_steadiness(rows: Sequence[Row], over: str) -> str:
    unsteady = [row[over] for row in rows if row["steady"] is False]
    unknown = sum(row["steady"] is None for row in rows)
    if unsteady:
        return _in_steps("not steady", unsteady, rows, over)
    if unknown:
        idle = any(row["steady"] is None and not row["operations"] for row in rows)
        why = "too short, or no operation succeeded" if idle else "too short to tell"
        return f"unknown in {unknown} of {len(rows)} steps: {why}"
    return "all steps steady"


def _in_steps(what: str, those: Sequence[float], rows: Sequence[Row], over: str) -> str:
    return f"{what} in {len(those)} of {len(rows)} steps: {_loads(those, over)}"


def _step_failures(rows: Sequence[Row]) -> str:
    errors = sum(row["errors"] for row in rows)
    causes = Counter[str]()
    for row in rows:
        causes.update(row["errors_by_cause"])
    found = {"lost": sum(row["lost"] for row in rows), "late": sum(row["late"] for row in rows)}
    counted = [{"kind": cause, "status": None, "count": n} for cause, n in causes.items()]
    total = {
        "errors": errors,
        "count": sum(row["operations"] for row in rows),
        "lost_races": sum(row["lost_races"] for row in rows),
    }
    return _failures(found, total, counted)


def _step_bottlenecks(rows: Sequence[Row], over: str) -> str:
    """The gravest, and in which steps."""
    found = [Bottleneck(row["bottleneck"]) for row in rows]
    whose = next(each for each in Bottleneck if each in found)
    loads = [row[over] for row, each in zip(rows, found, strict=True) if each is whose]
    if whose is Bottleneck.UNKNOWN:
        return f"unknown in {len(loads)} of {len(rows)} steps: no metrics of the hosts"
    if whose is Bottleneck.CLOSED_LOOP:
        return f"{_WHOSE[whose]}; never the load generator"
    if whose in (Bottleneck.NO_STORE, Bottleneck.RATE):
        return _WHOSE[whose]
    return _in_steps(_WHOSE[whose], loads, rows, over)


def _limit(search: Row, over: str, slo: str) -> str:
    kept, broken = search["largest_kept"], search["smallest_broken"]
    best = "no load" if kept is None else _loads([kept], over)
    missed = "" if broken is None else f", missed with {broken:g}"
    early = "" if search["complete"] else ", ended early"
    return f"{best} met {slo}{missed}{early}"


def of_comparison(
    runs: Sequence[Row],
    total: Mapping[str, Any],
    differing: int,
    kind: str,
    names: Sequence[str],
    judged: Sequence[tuple[str, bool]] = (),
    sides: Sides | None = None,
) -> Section:
    """The summary of a comparison: what changed, over all operations, against the first run.

    :param total: the figures of all operations; empty where only some operations are compared.
    :param differing: settings in which the runs differ.
    :param kind: which latency all runs have: response or service.
    :param names: of what is compared: runs, or groups of them.
    :param judged: each condition that no change may meet, and whether none did.
    :param sides: the groups of runs, if any.
    """
    figures = {row["figure"]: row for row in total["figures"].rows} if total else {}
    rates, latencies = {"operations/s": "operations_per_s"}, {f"{kind} p99": f"{kind}_p99_s"}
    if len(names) == 2:
        rates["MB/s"] = "moved_bytes_per_s"
        latencies = {f"{kind} p50": f"{kind}_p50_s", "p99": f"{kind}_p99_s"}
    steady = {True: "steady", False: "not steady"}
    short_of = [any(n.figures["finding"] == "too_short" for n in run["steadiness"]) for run in runs]
    steadiness = [
        steady.get(run["steady"]) or ("too short to tell" if short else "unknown")
        for run, short in zip(runs, short_of, strict=True)
    ]
    whose = [_WHOSE[Bottleneck(run["bottleneck"])] for run in runs]
    short = [text.partition(":")[0] for text in whose]
    failures = "see the operations"
    if total:
        failures = _failed_of_runs(total["errors"], total["operations"], names)
    scenarios = list(dict.fromkeys(run["scenario_name"] for run in runs))
    settings = f"{plural(differing, 'different setting')}" if differing else "same settings"
    runs_named = [run["run"] for run in runs]
    unusual = [f"{run['run']} {word}" for run in runs for word in run["unusual"]]
    early = ["ended early"] if sides and sides.pairs and sides.pairs.ended else []
    what = ", ".join([plural(len(runs), "run"), *early, settings, *unusual])
    unit = "pairs" if sides and sides.paired else "runs each"
    lines = [
        ("Throughput", _changes(figures, rates, names, unit)),
        ("Latency", _changes(figures, latencies, names, unit)),
        ("Steadiness", _of_runs(steadiness, runs_named)),
        ("Failures", failures),
        ("Bottleneck", _of_runs(whose if len(set(whose)) == 1 else short, runs_named)),
        ("Run", f"{what}: {', '.join(shortened(each, _NAME_WIDTH) for each in scenarios)}"),
    ]
    missed = list(dict.fromkeys(rule for rule, passed in judged if not passed))
    if judged:
        by = _BY_THE_REST if any(_INCOMPLETE.intersection(run["unusual"]) for run in runs) else ""
        lines.append(("Rules", (f"FAIL IF {', '.join(missed)}" if missed else "all met") + by))
    return _section(lines, [], _listed([run["file"] for run in runs], _TEXT_WIDTH))


#: Names of core.stats.compare.ChangeVerdict in words.
_VERDICTS = {
    "real": "more than noise",
    "noise": "noise",
    "unknown": "too little data",
    "not_judged": "not judged",
    "missing": "not in both",
}


def _changes(
    figures: Mapping[str, Row], keys: Mapping[str, str], names: Sequence[str], unit: str
) -> str:
    """``operations/s +20.0%, MB/s +19.8%: more than noise``, of each further run.

    :param unit: of the number of runs that would tell.
    """
    of_runs = []
    for other in range(len(names) - 1):
        found, needed = [], [0]
        for word, key in keys.items():
            row = figures.get(key)
            if row and any(each.value for each in row["runs"]):
                change = row["changes_against_first"][other]
                verdict = _VERDICTS[change["verdict"]]
                needed.append(change.get("runs_needed") or 0)
                found.append((f"{word} {change_text(change['ratio'])}", verdict))
        verdicts = {verdict for _change, verdict in found}
        if len(verdicts) == 1:
            text = f"{', '.join(change for change, _verdict in found)}: {verdicts.pop()}"
        else:
            parts = [f"{change} ({verdict})" for change, verdict in found]
            text = _listed(parts, _TEXT_WIDTH)
        if max(needed):
            text += f"; about {max(needed):,} {unit} would tell"
        prefix = f"{names[other + 1]}: " if len(names) > 2 else ""
        of_runs.append(prefix + (text or "not compared"))
    return _listed(of_runs, _TEXT_WIDTH, "run")


def _failed_of_runs(errors: Sequence[int], operations: Sequence[int], names: Sequence[str]) -> str:
    """The runs with failures first, so that a short line never hides them."""
    if not any(errors):
        texts = [_failed(*each) for each in zip(errors, operations, strict=True)]
        if names[0] == "run 1":
            return _of_runs(texts, names)
        if len(set(texts)) == 1:
            return f"{texts[0]}, on each side"
        sides = [f"{name}: {text}" for name, text in zip(names, texts, strict=True)]
        return _listed(sides, _TEXT_WIDTH, "side")
    runs = sorted(range(len(errors)), key=lambda at: -errors[at] / max(operations[at], 1))
    texts = [_failed(errors[at], operations[at]).replace(" operations", "") for at in runs]
    parts = [f"{names[at]}: {text}" for at, text in zip(runs, texts, strict=True)]
    return _listed(parts, _TEXT_WIDTH, "run")


def _of_runs(texts: Sequence[str], names: Sequence[str]) -> str:
    """One text where all runs have the same, else each with the name of its run."""
    if len(set(texts)) == 1:
        return f"{texts[0]}, in each run"
    named = [f"{name}: {text}" for name, text in zip(names, texts, strict=True)]
    return _listed(named, _TEXT_WIDTH, "run")
