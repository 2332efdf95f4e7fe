"""What to keep in mind when a run's figures are quoted."""

from __future__ import annotations

from typing import Any

from ssbench.core.stats.arrivals import arrivals
from ssbench.core.stats.buckets import RELATIVE_ERROR
from ssbench.core.stats.coordinated_omission import Omission, omission
from ssbench.core.stats.run_stats import RunStats
from ssbench.report import cells

#: Of runs with ``--noop``.
NO_STORE = (
    "No store was involved (--noop): rates and latencies are what ssbench itself can do, and no"
    " object was uploaded, read or deleted."
)
_CLOSED_LOOP = (
    "Coordinated omission: in a closed loop, users that wait for a response send nothing, so stalls"
    " are under-represented in percentiles; a run with --rate shows them."
)
_NOTHING = "No results to report: warm-up and cool-down cover the whole run ({:,} operations)."
_WIDE_SECONDS = (
    "Percentiles of single seconds are accurate to {:.2g} %: their buckets were widened to bound"
    " memory. Those of the whole run are not affected."
)

_MIX = (
    "{:.1f} % of the drawn operations found no object, so the mix of operations differs from the"
    " scenario's; use more initial objects or fewer users."
)
_AFTER_LAST_START = (
    "{:.0f} % of the time that the rates cover came after the last operation had started, while"
    " users went idle; until then the rate was {:,.1f} operations/s ({})."
)
_MIX_SHARE = 0.02  #: of draws; fewer leave the mix as it was asked for


def note_lines(stats: RunStats) -> list[str]:
    """A line for each; nothing in most runs."""
    return [
        f"{'WARNING' if row['note'] == 'behind' else 'Note'}: {row['sentence']}"
        for row in note_rows(stats)
    ]


def note_rows(stats: RunStats) -> list[dict[str, Any]]:
    """The notes with their figures."""
    if stats.left_out and not stats.total().operations:
        return [{"note": "nothing_counts", "sentence": _NOTHING.format(stats.left_out)}]
    return [
        *_no_store_rows(stats),
        *_behind_rows(stats),
        *_last_start_rows(stats),
        *_mix_rows(stats),
        *_omission_rows(stats),
        *_series_rows(stats),
    ]


def _no_store_rows(stats: RunStats) -> list[dict[str, Any]]:
    # 0.3.9's reports have no such line, and ours of its files are as they were.
    if not stats.run.no_store or stats.run.legacy:
        return []
    return [{"note": "no_store", "sentence": NO_STORE}]


def _behind_rows(stats: RunStats) -> list[dict[str, Any]]:
    found = arrivals(stats)
    if found is None or not found.behind:
        return []
    if found.late:
        what = f"{found.late:,} of {found.due:,} operations fell due and were never started"
    else:
        what = f"operations began {found.mean_lag_s:.3g} s late on average"
    sentence = (
        f"the load fell behind its rate: {found.started_per_s:,.1f} of"
        f" {found.target_per_s:,.10g} operations/s were started; {what}"
        " (too few users, or a store or a load generator that is too slow)"
    )
    return [
        {
            "note": "behind",
            "target_per_s": found.target_per_s,
            "started_per_s": found.started_per_s,
            "late": found.late,
            "mean_lag_s": found.mean_lag_s,
            "sentence": sentence,
        }
    ]


def _last_start_rows(stats: RunStats) -> list[dict[str, Any]]:
    found = stats.up_to_last_start
    if found is None or found.throughput.rate_per_s is None:
        return []
    rate = found.throughput.rate_per_s
    moved = found.throughput.bytes_per_s if stats.total().has_bytes else None
    megabytes = cells.megabytes_per_s(moved)
    return [
        {
            "note": "last_start",
            "share_after": found.share_after,
            "requests_per_s": rate,
            "moved_bytes_per_s": moved,
            "sentence": _AFTER_LAST_START.format(found.share_after * 100, rate, megabytes),
        }
    ]


def _mix_rows(stats: RunStats) -> list[dict[str, Any]]:
    skipped = sum(stats.run.skipped.values())
    draws = skipped + stats.total().operations + stats.left_out
    if not skipped or skipped < _MIX_SHARE * draws:
        return []
    share = skipped / draws
    return [{"note": "mix", "skipped_share": share, "sentence": _MIX.format(share * 100)}]


def _omission_rows(stats: RunStats) -> list[dict[str, Any]]:
    found = omission(stats)
    if found is None:
        return []
    return [
        {
            "note": "closed_loop",
            "slowest_s": found.slowest_ns / 1e9,
            "p99_s": found.p99_ns / 1e9,
            "sentence": _sentence(found),
        }
    ]


def _series_rows(stats: RunStats) -> list[dict[str, Any]]:
    error = stats.series.relative_error
    if error <= RELATIVE_ERROR:
        return []
    sentence = _WIDE_SECONDS.format(error * 100)
    return [{"note": "wide_seconds", "relative_error": error, "sentence": sentence}]


def _sentence(found: Omission) -> str:
    if not found.hidden:
        return _CLOSED_LOOP
    return (
        f"The slowest operation took {cells.milliseconds(found.slowest_ns)},"
        f" 99 % of them at most {cells.milliseconds(found.p99_ns)}. {_CLOSED_LOOP}"
    )
