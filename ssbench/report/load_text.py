"""What the text report says of the load: its model, its stages, and what was left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ssbench.core.stats.arrivals import arrivals
from ssbench.core.stats.run_records import StageUsers
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.scenario_view import ScenarioView
from ssbench.core.stats.tally import Basis, Latency, Tally
from ssbench.core.text import plural, printable
from ssbench.report import cells

_CLOSED = "closed loop: each user starts an operation when its previous one has completed"
_COLUMNS = (
    "#",
    "Seconds",
    "Users",
    "Rate/s",
    "Count",
    "Errors",
    "Ops/s",
    "MB/s",
    "p50",
    "p99",
    "max",
)
#: How successes are counted for a rate, and what else there is to say of its time.
_COUNTED = {
    Basis.DUE: ": successes by when they were due",
    Basis.SHARE: ": each success by the share of its time within that",
    Basis.COMPLETED: "",
    Basis.UNKNOWN_END: " (unknown when the load ended)",
}
_WIDTHS = (3, 9, 9, 9, 10, 8, 11, 10, 15, 15, 15)
_MOST_CHANGES = 5  #: of the number of users, told of a stage


def load_lines(stats: RunStats) -> Iterator[str]:
    """For the header: nothing for a plain closed loop, which all runs were once."""
    view = stats.run.scenario
    open_rates = [mark.rate for mark in stats.run.stages if mark.rate]
    if open_rates:
        rates = ", ".join(f"{rate:g}" for rate in open_rates)
        model = printable(view.arrivals or "uniform")
        found = arrivals(stats)
        started = f"; {found.started_per_s:,.1f}/s were started" if found else ""
        yield f"Load: open loop, {rates} operations/s due ({model} arrivals){started}"
    elif view.think_time or stats.stage_count > 1:
        yield f"Load: {_CLOSED}{_thinking(view.think_time)}"
    left_out = leaves_out(stats)
    if left_out:
        yield (
            f"Excluded: {left_out} ({plural(stats.left_out, 'operation')});"
            " the figures below do not include them"
        )
    yield from _rate_line(stats)


def _rate_line(stats: RunStats) -> Iterator[str]:
    """What the rates are divided by."""
    view, basis = stats.run.scenario, stats.rate_basis
    seconds = stats.total().throughput.seconds
    if seconds is None or basis not in _COUNTED:
        return
    begin, end = "first start", "last completion"
    if basis in (Basis.DUE, Basis.SHARE):
        begin = "start of the load" if basis is Basis.DUE else begin
        begin = "end of the warm-up" if view.warmup_s or view.stage_warmup_s(0) else begin
        end = "start of the cool-down" if view.cooldown_s else "end of the load"
    if any(view.stage_warmup_s(stage) for stage in range(1, stats.stage_count)):
        end += ", without the warm-ups between"
    yield f"Rates: over {seconds:.3f} s, from the {begin} to the {end}{_COUNTED[basis]}"


def users_text(asked: int | None, ran: StageUsers | None) -> str:
    """``64``; ``4 of 64`` or ``2 to 4 of 64`` where fewer users ran than were asked for."""
    if ran is None or not ran.short:
        return "N/A" if asked is None else str(asked)
    most = max(users for _at_s, users in ran.ran)
    return (
        f"{ran.least} of {ran.asked}"
        if most == ran.least
        else (f"{ran.least} to {most} of {ran.asked}")
    )


def missing_users_lines(stats: RunStats) -> Iterator[str]:
    """For the head: what ran instead of what was asked for; nothing where all users ran."""
    stages = stats.run.stage_users
    for number, users in enumerate(stages, 1):
        if users.short:
            stage = f"in stage {number} " if len(stages) > 1 else ""
            yield (
                f"FEWER USERS THAN REQUESTED: {stage}{_users_that_ran(users, stages[0])};"
                f" the figures below are not of {plural(users.asked, 'user')}"
            )


def _users_that_ran(users: StageUsers, first: StageUsers) -> str:
    """``4 of 64 users ran``, ``64 of 64 users ran at first, 32 from second 12.0``."""
    (_at_s, at_first), *changes = users.ran
    found = [f"{at_first} of {plural(users.asked, 'user')} ran" + (" at first" if changes else "")]
    begin_s = first.ran[0][0]
    found += [f"{ran} from second {at_s - begin_s:.1f}" for at_s, ran in changes[:_MOST_CHANGES]]
    if len(changes) > _MOST_CHANGES:
        found.append(f"and {len(changes) - _MOST_CHANGES} changes more (--json has them all)")
    return ", ".join(found)


def leaves_out(stats: RunStats) -> str:
    """What of the run doesn't count, in words; "" for nothing."""
    return _left_out(stats.run.scenario, stats.stage_count)


def _left_out(view: ScenarioView, stages: int) -> str:
    """``the first 5 s, the last 3 s and the first 2 s of stages 2, 3``."""
    parts = [f"the first {view.warmup_s:g} s"] if view.warmup_s else []
    parts += [f"the last {view.cooldown_s:g} s"] if view.cooldown_s else []
    of_stages: defaultdict[float, list[str]] = defaultdict(list)
    for stage in range(stages):
        of_stages[view.stage_warmup_s(stage)].append(str(stage + 1))
    for seconds, those in of_stages.items():
        if seconds:
            named = f"stage{'s' if len(those) > 1 else ''} {', '.join(those)}"
            of = "each stage" if len(those) == stages > 1 else named
            parts.append(f"the first {seconds:g} s of {of}")
    *most, last = parts or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _thinking(think_time: tuple[float, float] | None) -> str:
    if think_time is None:
        return ""
    least, longest = think_time
    span = f"{least:g} s" if least == longest else f"{least:g} to {longest:g} s"
    return f", and a pause of {span}"


def latency_of_load(tally: Tally) -> Latency:
    """What whoever asked for the operations felt: from due where they were due, else from start."""
    return tally.response if tally.response.histogram.count else tally.last_byte


def stage_lines(stats: RunStats) -> Iterator[str]:
    """A line for each stage of the load, where there is more than one."""
    if stats.stage_count < 2:
        return
    is_open = any(mark.rate for mark in stats.run.stages)
    yield f"STAGES (latencies: {'response' if is_open else 'service'} time)"
    yield _row(_COLUMNS)
    for index in range(stats.stage_count):
        yield _row(_stage_cells(stats, index))


def _stage_cells(stats: RunStats, index: int) -> tuple[str, ...]:
    marks, tally = stats.run.stages, stats.total(stage=index)
    mark = marks[index] if index < len(marks) else None
    ran = stats.run.stage_users[index] if mark else None
    throughput = tally.throughput
    rate, moved = tally.rate_per_s, tally.bytes_per_s
    quantiles = latency_of_load(tally).histogram.quantiles([50, 99, 100])
    return (
        str(index + 1),
        "N/A" if throughput.seconds is None else f"{throughput.seconds:.1f}",
        users_text(mark.users if mark else None, ran),
        f"{mark.rate:g}" if mark and mark.rate else "-",
        str(tally.count),
        str(tally.errors),
        "N/A" if rate is None else f"{rate:.1f}",
        "N/A" if moved is None else f"{moved / 1e6:.2f}",
        *(cells.milliseconds(value) for value in quantiles),
    )


def _row(values: tuple[str, ...]) -> str:
    return "".join(f"{value:>{width}}" for value, width in zip(values, _WIDTHS, strict=True))
