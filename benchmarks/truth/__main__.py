"""Compares ssbench's reports with the log of a server of known delays (`make truth`).

    python -m benchmarks.truth [--seconds 10] [--tries 3] [--only stalled] [--pairs 200]

Counts and bytes must be equal to the unit; means and percentiles up to 99.9 within 1 % or 0.4 ms,
whichever is larger. wrk's figures, where it is installed, are of a run of its own against the same
server. Exit status 1 where a bound is missed in each try (what else runs on a machine makes some
figures wrong now and then, a defect makes them wrong always), or where a row couldn't be run; 2
where none is, but a row could not be judged: no core was left to the load generator. The last rows
are of an S3 whose listings are wrong (--only LIST), and simulated: pairs of runs that `compare`
judges, searches of `find-limit`, and runs that are steady or not (--only compare, --only
find-limit, --only steadiness).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys

from benchmarks.truth import intervals, limits, listings, place, rows, steadiness, table


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of a run [default: 10]")
    parser.add_argument("--tries", type=int, default=3, help="of each row [default: 3]")
    parser.add_argument("--only", default="", help="rows with this word in their names or cases")
    parser.add_argument("--loose", type=float, default=1.0, help="multiplies bounds of times")
    parser.add_argument(
        "--pairs",
        type=int,
        default=200,
        help="of runs to compare, searches and runs [default: 200]",
    )
    parser.add_argument("--no-wrk", action="store_true", help="don't run wrk")
    chosen = parser.parse_args()
    wrk_seconds = 0.0 if chosen.no_wrk else min(chosen.seconds, 10.0)
    _tell_place()
    failed, not_judged = [], []
    for row in rows.ROWS:
        if chosen.only not in f"{row.case} {row.name}":
            continue
        outcome = rows.run(row, chosen.seconds, chosen.loose, wrk_seconds)
        taken = 1
        while (outcome.missed or outcome.not_judged) and taken < chosen.tries:
            outcome = rows.run(row, chosen.seconds, chosen.loose, wrk_seconds)
            taken += 1
        tries = f"  (try {taken} of {chosen.tries})" if taken > 1 else ""
        print(*table.lines(outcome, tries), sep="\n", flush=True)
        failed += [f"MISSED: {row.name}: {figure.name}" for figure in outcome.missed]
        failed += [f"NOT RUN: {row.name}"] if outcome.not_run else []
        not_judged += [f"NOT JUDGED: {row.name}"] if outcome.not_judged else []
    failed += listings.check(chosen.only)
    failed += intervals.check(chosen.pairs, chosen.only)
    failed += limits.check(chosen.pairs, chosen.only)
    failed += steadiness.check_rows(chosen.pairs, chosen.only)
    print(*failed, *not_judged, sep="\n")
    return 1 if failed else 2 if not_judged else 0


def _tell_place() -> None:
    cores = len(os.sched_getaffinity(0))
    ranked = "before all other processes" if place.is_ranked() else "with no rank before others"
    print(
        f"{platform.machine()}, {cores} cores, Python {platform.python_version()}; server and"
        f" clients run {ranked} (load average {os.getloadavg()[0]:.1f}). Times in ms.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
