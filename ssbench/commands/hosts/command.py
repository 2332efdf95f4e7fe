"""``check-network``, ``kill-workers`` and ``make-key``: what joins the hosts of a run.

The network is measured between the master, its workers, and listening sides near the store.
"""

import argparse
import platform
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from math import inf
from statistics import fmean

from msgspec import Struct

from ssbench.cli.config import values_of
from ssbench.cli.console import say, tell, tell_status
from ssbench.commands.base import watched
from ssbench.commands.hosts.settings import NetworkConfig
from ssbench.core.dispatch.workers import WorkerState
from ssbench.core.errors import ExitStatus, NoWorkersError, UsageError
from ssbench.core.live import Observer
from ssbench.core.messages import NetworkCheck, NetworkInterval, NetworkResult
from ssbench.core.settings import StorageSettings, TransportConfig
from ssbench.core.text import latency_text, plural, printable
from ssbench.master.master import Master
from ssbench.runner.session import bind, own_hub, warn_all
from ssbench.runner.stop import Stop
from ssbench.transport.key import CurveKey, load_key
from ssbench.transport.network import (
    IDLE_S,
    MAX_SECONDS,
    NetworkError,
    NetworkListener,
    end,
    measure,
)

_RULE = "-" * 60
_BYTES = ("Bytes", "KBytes", "MBytes", "GBytes", "TBytes")  #: powers of 1,024
_BITS = ("bits/sec", "Kbits/sec", "Mbits/sec", "Gbits/sec", "Tbits/sec")  #: powers of 1,000


def check_network(ns: argparse.Namespace) -> ExitStatus:
    """Measure each connection, and print its tables; FAILED if one could not be measured."""
    config = NetworkConfig(
        **values_of(NetworkConfig, ns),
        transport=TransportConfig(**values_of(TransportConfig, ns)),
    )
    links: list[Link] = []
    with watched(ns, "none", hold=False) as (progress, stop):
        for link in measure_links(config, [progress], stop):
            links.append(link)
            for line in _tables(link, 2 * len(links) - 1):
                say(printable(line))
    for line in _summary(links):
        say(printable(line))
    failed = [link for link in links if link.fault]
    if failed:
        tell(f"ssbench-master: {plural(len(failed), 'connection')} could not be measured")
    return ExitStatus.FAILED if failed else ExitStatus.OK


def _tables(link: "Link", number: int) -> Iterator[str]:
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


def _summary(links: "Sequence[Link]") -> Iterator[str]:
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


class Link(Struct, frozen=True):
    """A connection that was measured: ``near`` made it, and ``far`` listened."""

    near: str
    far: str
    result: NetworkResult | None
    fault: str = ""  #: why there is no result


def measure_links(
    config: NetworkConfig, observers: Sequence[Observer], stop: Stop
) -> Iterator[Link]:
    """Measure the connections one after the other: from this host, and from one worker of each
    host, to each server; and from these workers to this host.

    The servers end with it.

    :raises TransportError: a port is not available.
    :raises NoWorkersError: fewer workers joined than expected.
    :raises UsageError: there is nothing to measure.
    :raises KeyboardInterrupt: it was stopped.
    """
    key = load_key(config.transport.key_file)  # of servers
    warn = partial(warn_all, observers)

    def info(text: str) -> None:
        for observer in observers:
            observer.info(text)

    with ExitStack() as stack:
        stack.enter_context(own_hub())
        stack.callback(_end_servers, config, key)
        transport = stack.enter_context(bind(config.transport, warn))
        master = Master(transport, observers, StorageSettings(), config)
        stack.callback(master.release_workers)
        info("Waiting for workers")
        master.gather_workers(config.expect_workers)
        workers = _one_per_host(list(master.workers.present.values()))
        _check_enough(config, len(master.workers.present), workers)
        if workers:
            listener = stack.enter_context(
                NetworkListener(transport.ip, config.port, transport.key, "--network-port")
            )
            threading.Thread(target=listener.serve, args=(inf,), daemon=True).start()
        here = f"master ({platform.node()})"
        for server in config.servers:
            far = _named(server)
            info(f"Measuring from {here} to {far}")
            work = partial(_from_here, config, key, here, server)
            yield stop.run_interruptible(work, master.keep_workers_once)
        numbers = count(1)
        for worker in workers:
            near = f"worker {worker.hello.worker_id} ({worker.hello.host})"
            for server in (*config.servers, ("", config.port)):
                far = _named(server) if server[0] else here
                info(f"Measuring from {near} to {far}")
                check_network = NetworkCheck(
                    next(numbers), worker.hello.incarnation, *server, config.seconds,
                    config.size_bytes, config.connect_timeout_s,
                )  # fmt: skip
                answer = master.check_network(check_network, _longest_s(config))
                yield Link(near, far, answer.result, answer.fault)


def _longest_s(config: NetworkConfig) -> float:
    """Of a check: round trip and two transfers."""
    transfer_s = MAX_SECONDS if config.size_bytes else config.seconds
    return 2 * (transfer_s + 4 * IDLE_S) + 3 * (config.connect_timeout_s + IDLE_S)


def _one_per_host(workers: Sequence[WorkerState]) -> list[WorkerState]:
    """The first worker of each host, by the hosts' names."""
    found: dict[str, WorkerState] = {}
    for worker in sorted(workers, key=lambda worker: worker.hello.worker_id):
        found.setdefault(worker.hello.host, worker)
    return [found[host] for host in sorted(found)]


def _check_enough(config: NetworkConfig, joined: int, workers: Sequence[WorkerState]) -> None:
    if config.expect_workers is not None and joined < config.expect_workers:
        raise NoWorkersError(
            f"only {joined} of {config.expect_workers} workers joined within"
            f" {config.worker_wait_s:g} s"
        )
    if not workers and not config.servers:
        raise UsageError(
            "nothing to measure: no worker joined, and no server is named; start ssbench-worker"
            " --network-server on the store's host, and name that host"
        )


def _from_here(
    config: NetworkConfig, key: CurveKey | None, here: str, server: tuple[str, int]
) -> Link:
    try:
        result = measure(
            server,
            key,
            seconds=config.seconds,
            size_bytes=config.size_bytes,
            connect_timeout_s=config.connect_timeout_s,
        )
    except NetworkError as error:
        return Link(here, _named(server), None, str(error))
    return Link(here, _named(server), result)


def _end_servers(config: NetworkConfig, key: CurveKey | None) -> None:
    for server in config.servers:
        with suppress(NetworkError):  # it was reported, or has ended
            end(server, key, min(config.connect_timeout_s, 1.0))


def _named(server: tuple[str, int]) -> str:
    host, port = server
    return f"[{printable(host)}]:{port}" if ":" in host else f"{printable(host)}:{port}"


def kill_workers(ns: argparse.Namespace) -> ExitStatus:
    """End all workers of this host's master."""
    from ssbench.runner.session import kill_workers as kill

    with watched(ns, "none", hold=False) as (progress, stop):
        transport = TransportConfig(**values_of(TransportConfig, ns))
        ended, left = kill(transport, ns.worker_wait_s, [progress], stop)
    for name in ended:
        say(f"Ended worker {printable(name)}")
    for name in left:
        tell(f"Still running: worker {printable(name)}")
    if stop.requested:
        return tell_status({ExitStatus.INTERRUPTED: stop.reason})
    if not ended and not left:
        tell("No workers were found.")
    return ExitStatus.OK if ended and not left else ExitStatus.FAILED


def make_key(ns: argparse.Namespace) -> ExitStatus:
    from ssbench.transport.key import CurveKey

    CurveKey.generate().save(ns.new_key_file)
    name = printable(ns.new_key_file)
    say(f"Wrote {name}; copy it to all worker hosts over a secure channel")
    return ExitStatus.OK
