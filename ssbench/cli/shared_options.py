"""Options that several commands share."""

from __future__ import annotations

import argparse

from ssbench.core import option as types

DEFAULT_PERCENTILES = (95.0,)


def add_loudness(parser: argparse.ArgumentParser, *, quiet: bool, default: object) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", default=default, help="print more messages"
    )
    if quiet:
        parser.add_argument("-q", "--quiet", action="store_true", default=default,
                            help="print only the report, warnings and errors")  # fmt: skip


def add_retries(group: argparse._ActionsContainer) -> None:
    group.add_argument("--retries", type=types.whole(0), default=10, metavar="COUNT",
                       help="number of times to repeat a failed operation")  # fmt: skip


def add_batch_size(
    group: argparse._ActionsContainer,
    help_text: str = "most jobs in one message; auto sends what is due, at most 256; 1 is what "
    "ssbench 0.3.9 did",
) -> None:
    group.add_argument("--batch-size", type=types.batch_size, default="auto", metavar="COUNT",
                       help=help_text)  # fmt: skip


def add_pctile(group: argparse._ActionsContainer) -> None:
    group.add_argument("--pctile", type=types.percentile, action="append", dest="percentiles",
                       metavar="PERCENTILE",
                       help="latency percentile to report, such as 99.9; may be repeated "
                       "[default: 95]")  # fmt: skip


def add_threshold(group: argparse._ActionsContainer) -> None:
    group.add_argument("--threshold", action="append", dest="thresholds", metavar="CONDITION",
                       help="condition that the run must meet, such as 'p99(READ) < 50ms', "
                       "'errors < 0.1%%' or 'rate > 1000/s'; exit status 3 if one is missed; may "
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
    """The percentiles given, in order and without duplicates; the default if there are none."""
    return tuple(dict.fromkeys(ns.percentiles or ())) or DEFAULT_PERCENTILES
