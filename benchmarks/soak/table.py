"""The results of a soak as text, and whether it passed."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.soak.memory import MB, Track, Usage
from benchmarks.soak.soak import Outcome
from benchmarks.soak.verdict import HUNG_S, Accounts
from ssbench.core.model import ErrorKind

#: Nobody may grow by as much as this in ten minutes.
GROWTH_BYTES = 1.0 * MB
#: What a process needs until it is as large as it gets; short runs have less of it.
WARM_UP_S = 300.0


def judged(outcome: Outcome) -> list[str]:
    """A line per failure; empty if the soak passed."""
    wrong = list(outcome.wrong)
    sums = outcome.accounts
    if sums is None:
        return [*wrong, "there is nothing to account for"]
    for track in outcome.memory.tracks:
        growth = _growth(track, sums, "own")
        if growth is not None and growth >= GROWTH_BYTES:
            wrong.append(f"{track.name} grows by {growth / MB:.2f} MB in 10 minutes")
    for name in outcome.well:
        silent_s = sums.run_seconds - sums.last_s.get(name, 0.0)
        if silent_s > HUNG_S:
            wrong.append(f"{name} did nothing in the last {silent_s:.0f} s of the run")
    return wrong


def lines(outcome: Outcome) -> Iterator[str]:
    """The tables."""
    yield f"{'fault':<6} {'times':>6} {'seconds':>8} {'given up':>9} {'operations lost':>16}"
    for kind, came in outcome.faults.items():
        yield (f"{kind:<6} {came.times:>6} {came.seconds:>8.1f} {came.given_up:>9} {came.lost:>16}")
    if outcome.accounts is not None:
        yield ""
        yield from _sums(outcome.accounts)
        refusals = [f"{count} of {status}" for status, count in sorted(outcome.rejected.items())]
        yield f"answers of the store that refused: {', '.join(refusals) or 'none'}"
        yield ""
        yield from _memory(outcome, outcome.accounts)


def _sums(sums: Accounts) -> Iterator[str]:
    total, run = sums.stats.total(), sums.stats.run
    for (kind, status), error in sorted(sums.stats.errors.items()):
        label = f"{ErrorKind(kind).label} {status or ''}".strip()
        yield f"failed: {error.count} by {label} ({error.example.detail})"
    yield (
        f"operations: {sums.sent} sent = {total.count} done + {total.errors} failed"
        f" + {run.lost} lost"
    )
    yield (
        f"on the way: {total.retries} retries, {total.reconnects} reconnects,"
        f" {total.renewals} begun anew with a fresh token, {run.refused} refused results"
    )
    yield (
        f"server's log: {len(sums.done) - sums.not_logged} of {len(sums.done)} done operations are"
        f" in it; {sums.unreported} more that it did, of failed, repeated or lost ones"
    )
    yield f"longest time without an operation: {sums.longest_silence_s} s"
    yield f"left in the store: {run.left_behind} objects"


def _memory(outcome: Outcome, sums: Accounts) -> Iterator[str]:
    yield (
        f"{'MB':<10} {'watched':>8} {'own':>6} {'USS':>6} {'PSS':>6} {'RSS':>6}"
        f"  grows in 10 minutes by: {'own':>6} {'USS':>6} {'PSS':>6} {'RSS':>6}"
    )
    ended_s = sums.started_s + sums.run_seconds
    for track in outcome.memory.tracks:
        seen = [usage for at, usage in track.samples if sums.started_s <= at <= ended_s]
        if not seen:
            continue
        sizes = " ".join(f"{value / MB:>6.1f}" for value in seen[-1])
        grown = [_growth(track, sums, kind) for kind in Usage._fields]
        words = " ".join(f"{value / MB:>6.2f}" for value in grown if value is not None)
        yield f"{track.name:<10} {len(seen):>6} s {sizes}  {'':>23} {words or 'too short to say'}"
    master = outcome.memory.tracks[0]
    before = [usage.own for at, usage in master.samples if at <= ended_s]
    after = [usage.own for at, usage in master.samples if at > ended_s]
    if before and after:
        yield (
            f"clean-up and report took the master from {before[-1] / MB:.1f} to"
            f" {max(after) / MB:.1f} MB of its own at most"
        )


def _growth(track: Track, sums: Accounts, kind: str) -> float | None:
    """Growth in bytes per ten minutes of the run phase, after the first minutes."""
    if not track.samples:
        return None
    warm_s = min(WARM_UP_S, sums.run_seconds / 4)
    from_s = max(sums.started_s, track.samples[0][0]) + warm_s
    return track.growth(kind, from_s, sums.started_s + sums.run_seconds)
