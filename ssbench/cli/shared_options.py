"""Options that several commands have, each said once."""

from __future__ import annotations

import argparse

from ssbench.cli import option_types as types

DEFAULT_PERCENTILES = (95.0,)


def add_loudness(parser: argparse.ArgumentParser, *, quiet: bool, default: object) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", default=default, help="say more of what goes on"
    )
    if quiet:
        parser.add_argument("-q", "--quiet", action="store_true", default=default,
                            help="say nothing but the report and errors")  # fmt: skip


def add_retries(group: argparse._ActionsContainer) -> None:
    group.add_argument("--retries", type=types.whole(0), default=10, metavar="COUNT",
                       help="how often to repeat a failed operation")  # fmt: skip


def add_batch_size(
    group: argparse._ActionsContainer,
    help_text: str = "jobs in one message, at most: auto for what is due, 256 at most; 1 is the "
    "way of ssbench 0.3.9",
) -> None:
    group.add_argument("--batch-size", type=types.batch_size, default="auto", metavar="COUNT",
                       help=help_text)  # fmt: skip


def add_pctile(group: argparse._ActionsContainer) -> None:
    group.add_argument("--pctile", type=types.percentile, action="append", dest="percentiles",
                       metavar="PERCENTILE",
                       help="percentile of latencies to report, fractions too; may be repeated "
                       "[default: 95]")  # fmt: skip


def add_threshold(group: argparse._ActionsContainer) -> None:
    group.add_argument("--threshold", action="append", dest="thresholds", metavar="PROMISE",
                       help="a promise to judge at the end, as in 'p99(READ) < 50ms', "
                       "'errors < 0.1%%' or 'rate > 1000/s'; exit with 3 where one is missed; may "
                       "be repeated")  # fmt: skip


def add_resume(group: argparse._ActionsContainer, help_text: str) -> None:
    group.add_argument("--resume-cleanup", metavar="STATS_FILE", help=help_text)


def add_format(group: argparse._MutuallyExclusiveGroup, csv: str, json: str) -> None:
    group.add_argument("--csv", action="store_true", help=csv)
    group.add_argument("--json", action="store_true", help=json)


def format_of(ns: argparse.Namespace) -> str:
    """``text``, ``csv`` or ``json``."""
    return "csv" if ns.csv else "json" if ns.json else "text"


def percentiles_from(ns: argparse.Namespace) -> tuple[float, ...]:
    """Each once, in the order given; the default where none was."""
    return tuple(dict.fromkeys(ns.percentiles or ())) or DEFAULT_PERCENTILES
