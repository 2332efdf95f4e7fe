"""Options that several commands have, each said once."""

from __future__ import annotations

import argparse

from ssbench.cli import option_types as types
from ssbench.cli.auth_options import add_auth_options

WORK_PORT, RESULTS_PORT, CONTROL_PORT = 13579, 13580, 13581


def add_loudness(parser: argparse.ArgumentParser, *, quiet: bool, default: object) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", default=default, help="say more of what goes on"
    )
    if quiet:
        parser.add_argument("-q", "--quiet", action="store_true", default=default,
                            help="say nothing but the report and errors")  # fmt: skip


def add_store(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the store")
    add = group.add_argument
    add(
        "-S",
        "--storage-url",
        action="append",
        dest="storage_urls",
        type=types.http_url,
        metavar="STORAGE_URL",
        help="use this storage URL, whatever the login says; may be repeated: each request then "
        "takes one at random",
    )
    add(
        "--connect-timeout",
        type=types.seconds,
        default=10.0,
        metavar="SECONDS",
        help="longest wait for a connection",
    )
    add(
        "--network-timeout",
        type=types.seconds,
        default=20.0,
        metavar="SECONDS",
        help="longest silence on a connection",
    )
    add_auth_options(parser)  # fmt: skip


def add_master_sockets(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--zmq-bind-ip",
        metavar="BIND_IP",
        help="address to await workers at: 0.0.0.0 or :: for all interfaces [default: all with "
        "a key file, 127.0.0.1 without]",
    )
    add_ports(group)


def add_ports(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--zmq-work-port", type=types.port, default=WORK_PORT, metavar="PORT", help="port for jobs")
    add(
        "--zmq-results-port",
        type=types.port,
        default=RESULTS_PORT,
        metavar="PORT",
        help="port for results",
    )
    # The spelling of ssbench 0.3.9's master.
    add(
        "--zmq-results_port",
        type=types.port,
        dest="zmq_results_port",
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )
    add(
        "--zmq-control-port",
        type=types.port,
        default=CONTROL_PORT,
        metavar="PORT",
        help="port for the master's word to all workers",
    )
    add("--zmq-key-file", metavar="FILE",
        help="encrypt all traffic with this key, and let nobody in without it; the same file on "
        "all hosts (make-key writes one) [env SSBENCH_KEY_FILE]")  # fmt: skip


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
