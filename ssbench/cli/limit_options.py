"""Options of find-limit: its own, and those that it shares with run-scenario."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ssbench.cli.parser import add_options
from ssbench.cli.run_config import RunOptions, run_options
from ssbench.cli.run_options import (
    add_file,
    add_how,
    add_load,
    add_objects,
    add_results,
    add_users,
    add_workers,
)
from ssbench.cli.store_options import STORE_OPTIONS
from ssbench.core import option as types
from ssbench.core.errors import UsageError
from ssbench.core.scenario.fields import MAX_RATE
from ssbench.core.stats.steps import OVER

if TYPE_CHECKING:
    from ssbench.core.stats.thresholds import Threshold

MOST_USERS = 1024  #: upper bound unless --max-users or remote workers set one
#: Fast errors would pass as low latencies, so this SLO is added unless one limits errors.
FEW_ERRORS = "errors < 1%"
_FIRST = {"users": 1.0, "rate": 10.0}
#: Values of run-scenario options that find-limit does not have.
_ABSENT: Mapping[str, object] = {
    "operation_count": None, "run_seconds": None, "rate": None, "cooldown": None,
    "thresholds": None, "sweep": None, "auto_stop": False, "resume_cleanup": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """Options of find-limit.

    :param most: highest load to try; None: as many users as the workers can run.
    """

    run: RunOptions  #: of each step; its thresholds are the SLOs
    over: str  #: a key of core.stats.steps.OVER
    first: float
    most: float | None
    precision: float  #: as a fraction, 0.05 for 5 %
    confirm: int  #: repetitions of the two loads next to the limit


def add_find_limit(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to run")
    add_file(what.add_mutually_exclusive_group(required=True))
    add_users(what)
    add_objects(what)
    _add_search(parser.add_argument_group("search"))
    add_load(parser.add_argument_group("load"))
    add_how(parser.add_argument_group("execution"))
    add_results(parser.add_argument_group("results"))
    add_workers(parser)
    add_options(parser, STORE_OPTIONS)
    parser.set_defaults(**_ABSENT)


def _add_search(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--slo",
        action="append",
        dest="slos",
        required=True,
        metavar="SLO",
        help="condition that a load must meet, such as 'p99 < 50ms' or 'errors < 0.1%%'; may be "
        f"repeated; '{FEW_ERRORS.replace('%', '%%')}' is added unless one limits errors",
    )
    add("--over", choices=tuple(OVER), default="users", help="what to double, then bisect")
    add(
        "--start",
        type=types.rate,
        metavar="LOAD",
        help="first load to try [default: 1 user, or 10 operations/s]",
    )
    add(
        "--max-users",
        type=types.count,
        metavar="COUNT",
        help="highest number of users to try [default: 1024 with --workers, else as many as the "
        "workers can run]",
    )
    add(
        "--max-rate",
        type=types.rate,
        metavar="RATE",
        help="with --over rate: highest rate to try",
    )
    add(
        "--step-seconds",
        type=types.seconds,
        default=10.0,
        metavar="SECONDS",
        help="how long to measure each load, after its warm-up",
    )
    add(
        "--warmup",
        type=types.seconds_or_none,
        default=3.0,
        metavar="SECONDS",
        help="warm-up of each step, excluded from its statistics",
    )
    add(
        "--precision",
        type=types.tolerance,
        default=5.0,
        metavar="PERCENT",
        help="stop when the highest load that met the SLO and the lowest that missed it differ by "
        "at most this",
    )  # fmt: skip
    add(
        "--confirm",
        type=types.whole(0, 10),
        default=1,
        metavar="TIMES",
        help="how often to run these two loads again; if runs disagree, the majority counts, and "
        "the search continues",
    )


def limit_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> LimitOptions:
    """Options of find-limit from a parsed command line.

    :raises UsageError: for options that exclude each other, and for malformed SLOs.
    """
    _check(ns)
    ns.run_seconds = ns.step_seconds + ns.warmup
    most = ns.max_users if ns.over == "users" else ns.max_rate or MAX_RATE
    first = ns.start or _FIRST[ns.over]
    if most is None and ns.workers and not ns.expect_workers:
        most = MOST_USERS
    if most is not None and first > most:
        raise UsageError(f"--start {first:g} is above --max-{ns.over} {most:g}")
    return LimitOptions(
        run=replace(run_options(ns, environ), thresholds=_slos(ns.slos)),
        over=ns.over,
        first=first,
        most=most,
        precision=ns.precision / 100,
        confirm=ns.confirm,
    )


def _check(ns: argparse.Namespace) -> None:
    if ns.over == "users":
        if ns.user_count is not None:
            raise UsageError(
                "-u: find-limit searches for the number of users; bound it by --start and "
                "--max-users"
            )
        if ns.max_rate is not None:
            raise UsageError("--max-rate requires --over rate")
        if ns.start is not None and ns.start != int(ns.start):
            raise UsageError(f"--start {ns.start:g}: give a whole number of users")
    elif ns.max_users is not None:
        raise UsageError("--max-users requires --over users; with a rate, -u limits concurrency")


def _slos(texts: list[str]) -> tuple[Threshold, ...]:
    from ssbench.core.stats.thresholds import Threshold

    found = [Threshold.parse(text, "--slo") for text in dict.fromkeys(texts)]
    if not any(threshold.metric == "errors" for threshold in found):
        found.append(Threshold.parse(FEW_ERRORS))
    return tuple(found)
