"""The options of find-limit: those of run-scenario that go with it, and its own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ssbench.cli import option_types as types
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
from ssbench.cli.store_options import add_store
from ssbench.core.errors import UsageError
from ssbench.core.scenario.load_keys import MAX_RATE
from ssbench.core.stats.steps import OVER

if TYPE_CHECKING:
    from ssbench.core.stats.thresholds import Threshold

MOST_USERS = 1024  #: where neither the user nor workers of other hosts say
#: Quick errors make quick latencies: this is promised too, unless a promise speaks of errors.
FEW_ERRORS = "errors < 1%"
_FIRST = {"users": 1.0, "rate": 10.0}
#: What of run-scenario there is no option for here.
_ABSENT: Mapping[str, object] = {
    "operation_count": None, "run_seconds": None, "rate": None, "cooldown": None,
    "thresholds": None, "sweep": None, "auto_stop": False, "resume_cleanup": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """find-limit.

    :param most: None: what the workers that come can be; for rates, what a scenario may have.
    """

    run: RunOptions  #: of each step; its thresholds are the promises
    over: str  #: a key of core.stats.steps.OVER
    first: float
    most: float | None
    precision: float  #: as a share
    confirm: int  #: how often the answer is tried again


def add_find_limit(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to run")
    add_file(what.add_mutually_exclusive_group(required=True))
    add_users(what)
    add_objects(what)
    _add_search(parser.add_argument_group("what to find"))
    add_load(parser.add_argument_group("how hard"))
    add_how(parser.add_argument_group("how to run it"))
    add_results(parser.add_argument_group("results"))
    add_workers(parser)
    add_store(parser)
    parser.set_defaults(**_ABSENT)


def _add_search(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--slo",
        action="append",
        dest="slos",
        required=True,
        metavar="PROMISE",
        help=f"what a load must keep, as in 'p99 < 50ms' or 'errors < 0.1%%'; may be repeated; "
        f"'{FEW_ERRORS.replace('%', '%%')}' too, unless one is of errors",
    )
    add("--over", choices=tuple(OVER), default="users", help="what is doubled, then bisected")
    add(
        "--start",
        type=types.rate,
        metavar="LOAD",
        help="the load to begin with [default: 1 user, or 10 operations a second]",
    )
    add(
        "--max-users",
        type=types.count,
        metavar="COUNT",
        help="the most to try [default: with --workers 1024, else what the workers can be]",
    )
    add(
        "--max-rate",
        type=types.rate,
        metavar="RATE",
        help="with --over rate: the most to try",
    )
    add(
        "--step-seconds",
        type=types.seconds,
        default=10.0,
        metavar="SECONDS",
        help="how long each load is measured, beside its warm-up",
    )
    add(
        "--warmup",
        type=types.seconds_or_none,
        default=3.0,
        metavar="SECONDS",
        help="time at the start of each step that doesn't count",
    )
    add(
        "--precision",
        type=types.tolerance,
        default=5.0,
        metavar="PERCENT",
        help="how near the largest load that kept the promise and the smallest that broke it "
        "are to be",
    )  # fmt: skip
    add(
        "--confirm",
        type=types.whole(0, 10),
        default=1,
        metavar="TIMES",
        help="how often these two are run again; where a run contradicts, the majority counts, and "
        "the search goes on",
    )


def limit_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> LimitOptions:
    """What find-limit was told.

    :raises UsageError: options that can't go together, promises that can't be read.
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
        run=replace(run_options(ns, environ), thresholds=_promises(ns.slos)),
        over=ns.over,
        first=first,
        most=most,
        precision=ns.precision / 100,
        confirm=ns.confirm,
    )


def _check(ns: argparse.Namespace) -> None:
    if ns.over == "users":
        if ns.user_count is not None:
            raise UsageError("-u: users are what is searched for; --start and --max-users bound it")
        if ns.max_rate is not None:
            raise UsageError("--max-rate goes with --over rate")
        if ns.start is not None and ns.start != int(ns.start):
            raise UsageError(f"--start {ns.start:g}: give a whole number of users")
    elif ns.max_users is not None:
        raise UsageError("--max-users goes with --over users; with a rate, -u bounds concurrency")


def _promises(texts: list[str]) -> tuple[Threshold, ...]:
    from ssbench.core.stats.thresholds import Threshold

    found = [Threshold.parse(text, "--slo") for text in dict.fromkeys(texts)]
    if not any(threshold.metric == "errors" for threshold in found):
        found.append(Threshold.parse(FEW_ERRORS))
    return tuple(found)
