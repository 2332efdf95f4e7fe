"""``check-network``: throughput and round trip between the hosts of a run, as tables."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from statistics import fmean

from ssbench.cli.config import transport_config
from ssbench.cli.signals import Signals
from ssbench.commands.network.plan import Link, NetworkConfig, check_network
from ssbench.core.errors import ExitStatus
from ssbench.core.messages import NetworkInterval
from ssbench.core.text import latency_text, plural, printable
from ssbench.live.console import say, tell
from ssbench.live.progress import make_progress
from ssbench.runner.stop import Stop

_RULE = "-" * 60
_BYTES = ("Bytes", "KBytes", "MBytes", "GBytes", "TBytes")  #: powers of 1,024
_BITS = ("bits/sec", "Kbits/sec", "Mbits/sec", "Gbits/sec", "Tbits/sec")  #: powers of 1,000


def check(ns: argparse.Namespace) -> ExitStatus:
    """Measure each connection, and print its tables; FAILED if one could not be measured."""
    config = NetworkConfig(
        transport_config(ns, os.environ),
        ns.servers or (),
        ns.seconds,
        ns.size_bytes or 0,
        ns.network_port,
        ns.expect_workers,
        ns.worker_wait_s,
        ns.connect_timeout,
        ns.worker_timeout_s,
    )
    stop = Stop()
    links: list[Link] = []
    with Signals(stop), make_progress("none", quiet=ns.quiet) as progress:
        for link in check_network(config, [progress], stop):
            links.append(link)
            for line in _tables(link, 2 * len(links) - 1):
                say(printable(line))
    for line in _summary(links):
        say(printable(line))
    failed = [link for link in links if link.fault]
    if failed:
        tell(f"ssbench-master: {plural(len(failed), 'connection')} could not be measured")
    return ExitStatus.FAILED if failed else ExitStatus.OK


def _tables(link: Link, number: int) -> Iterator[str]:
    """Both directions of a connection, numbered from ``number``."""
    yield from (_RULE, f"{link.near} - {link.far}, TCP")
    if link.result is None:
        yield from (f"FAILED: {link.fault}", _RULE)
        return
    trips = link.result.round_trips_s
    if trips:
        yield (
            f"Round trip while idle: {latency_text(min(trips))} min, {latency_text(fmean(trips))}"
            f" mean, {latency_text(max(trips))} max ({plural(len(trips), 'sample')})"
        )
    yield _RULE
    yield "[ ID] Interval        Transfer     Bandwidth       Round trip"
    for title, intervals in ((link.far, link.result.sent), (link.near, link.result.received)):
        yield f"[{number:3}] to {title}"
        begin_s = 0.0
        for each in intervals:
            # The rest of a second at the end would have a rate of its own that says nothing.
            if len(intervals) == 1 or each.seconds >= 0.5:
                yield _line(number, begin_s, each)
            begin_s += each.seconds
        if len(intervals) > 1:
            yield _line(number, 0.0, _total(intervals))
        number += 1


def _summary(links: Sequence[Link]) -> Iterator[str]:
    """A line for each connection, if there are several."""
    if len(links) < 2:
        return
    names = [f"{link.near} - {link.far}" for link in links]
    width = max(map(len, names))
    yield _RULE
    yield f"{'Connection':{width}}  {'Sent':>15}  {'Received':>15}  {'Round trip':>10}"
    for name, link in zip(names, links, strict=True):
        if link.result is None:
            yield f"{name:{width}}  failed"
            continue
        sent, received = (_rate(_total(i)) for i in (link.result.sent, link.result.received))
        trips = link.result.round_trips_s
        trip = latency_text(fmean(trips)) if trips else "-"
        yield f"{name:{width}}  {sent:>15}  {received:>15}  {trip:>10}"


def _total(intervals: Sequence[NetworkInterval]) -> NetworkInterval:
    """All of it, with the mean of the round trips."""
    trips = [each.round_trip_s for each in intervals if each.round_trip_s is not None]
    seconds, size = sum(each.seconds for each in intervals), sum(i.size_bytes for i in intervals)
    return NetworkInterval(seconds, size, fmean(trips) if trips else None)


def _line(number: int, begin_s: float, each: NetworkInterval) -> str:
    transfer = _scaled(each.size_bytes, 1024, _BYTES)
    span = f"{begin_s:4.1f}-{begin_s + each.seconds:4.1f} sec"
    return (
        f"[{number:3}] {span}  {transfer:>11}  {_rate(each):>14}  {latency_text(each.round_trip_s)}"
    )


def _rate(each: NetworkInterval) -> str:
    return _scaled(8 * each.size_bytes / each.seconds if each.seconds else 0.0, 1000, _BITS)


def _scaled(value: float, base: int, units: Sequence[str]) -> str:
    """Three digits and a unit, as iperf prints them: ``384 MBytes``, ``3.22 Gbits/sec``."""
    power = 0
    while value >= base and power < len(units) - 1:
        value, power = value / base, power + 1
    digits = 0 if value >= 99.95 or not power else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {units[power]}"
