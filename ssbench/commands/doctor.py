"""Checks of all that a run needs, a row of CHECKS each: what is wrong, and what to do about it.

A run makes the cheap ones itself, by the same functions (``prepare``, ``local_workers``,
``session``). The store is changed by one check only: an object is uploaded, read and deleted in a
container of our own.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from enum import Enum
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import NamedTuple

import psutil
from msgspec.structs import replace

from ssbench import statfile
from ssbench.cli.config import base_config, run_config
from ssbench.cli.console import printable_lines, say, tell
from ssbench.commands.base import watched
from ssbench.core.columns import Schema, packed_count
from ssbench.core.dispatch.workers import WorkerState
from ssbench.core.errors import ExitStatus, SsbenchError, StorageError, UsageError
from ssbench.core.live import Observer
from ssbench.core.model import Job, Phase, SizeClass, Timing
from ssbench.core.naming import RUN_ID_BYTES, naming_of
from ssbench.core.operations import CREATE, DELETE, HEAD, READ
from ssbench.core.records import Record, ResultBatch
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import StorageSettings
from ssbench.core.text import bytes_text, latency_text, plural, printable, wrapped
from ssbench.core.workload.workload import EnsureWorkload
from ssbench.host.process import allow_many_connections, host_limits, most_users, usable_cores
from ssbench.master.master import Master
from ssbench.master.phase_machine import PhasePlan
from ssbench.runner import resolve
from ssbench.runner.config import RunConfig
from ssbench.runner.local_workers import users_per_worker
from ssbench.runner.prepare import (
    Check,
    check,
    check_policy,
    check_results_space,
    explained,
    make_containers,
    mean_size,
    state_of,
)
from ssbench.runner.session import (
    Store,
    check_encrypted,
    embedded_store,
    open_ports,
    own_hub,
    reach_store,
)
from ssbench.runner.single_run import settings_of
from ssbench.runner.ssh_workers import SshWorkers, start_ssh_workers
from ssbench.runner.stop import Stop
from ssbench.storage.base import ObjectStore, StoreLimits, StoreState
from ssbench.storage.identities import names_of
from ssbench.storage.registry import (
    check_capabilities,
    open_store,
    row_of,
    url_count,
)
from ssbench.storage.retrying_client import RetryingClient
from ssbench.transport.master_transport import MasterTransport

log = logging.getLogger(__name__)

CONTAINER_BASE = "ssbench_doctor"  #: of the container of the check "role"
SMALL_BYTES, LARGE_BYTES = 4096, 64 << 20  #: of the objects that are uploaded
_TRANSFERS = 1 << 20, 8 << 20, LARGE_BYTES  #: until one takes a second
_ROUND_TRIPS = 20
_TRANSFER_S = 20.0  #: longest time of an operation
_SLOW_ROUND_TRIP_S = 0.05
_UPLOADS_S = 10.0  #: longest time of the workers' uploads
_CLOCKS_S, _POLL_S = 2.0, 0.01  #: longest wait for the workers' clocks; between two polls
_AHEAD_S = 2.0  #: of the store's clock, which has whole seconds
#: Operations/s of one core that runs workers and master: about half of what was measured for PUTs
#: of small objects to Swift (21.8 and 3.3 µs: docs/explanation/performance), since hosts and stores
#: differ.
_OPERATIONS_OF_CORE = 20_000


class Verdict(Enum):
    """What a check found."""

    OK = "ok"
    WARNING = "warning"  #: a run would start, and something is wrong
    FAILED = "failed"  #: a run would fail
    SKIPPED = "-"  #: not checked: the store has no such thing, or an earlier check failed


class Finding(NamedTuple):
    """A row of the table."""

    check: str  #: name of the check
    verdict: Verdict
    result: str  #: what is so
    advice: str = ""  #: what to do about it; "" if nothing, or if the result says it


class CheckRow(NamedTuple):
    """A check: its findings are those of a function of the Doctor, which may raise."""

    name: str
    what: str  #: what it does; shown with --verbose
    find: Callable[[Doctor], Iterator[Finding]]
    needs_login: bool = False


class Doctor:
    """Makes the checks one after the other; later ones use what earlier ones opened.

    :param scenario: None: only what any run needs is checked.
    """

    client: RetryingClient  #: once logged in

    def __init__(
        self,
        config: RunConfig,
        scenario: Scenario | None = None,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
    ) -> None:
        self.config = config
        self.scenario = scenario
        self.observers = observers
        self.stop = stop or Stop()
        self.stack = ExitStack()
        self.warnings: list[str] = []  #: of what the present check calls
        self.ssh: SshWorkers | None = None
        self.transport: MasterTransport | None = None
        self.store: Store | None = None
        self.settings = StorageSettings()  #: of the doctor's own container; once logged in
        self.limits = StoreLimits()
        self.state = StoreState()
        self.workers: list[WorkerState] = []
        self.operation_s: float | None = None  #: time of a small operation
        self.bytes_per_s: float | None = None  #: of one connection

    def __repr__(self) -> str:
        return f"<Doctor of {self.config.store!r}>"

    @property
    def users(self) -> int:
        """Of the scenario; 1 without one."""
        return self.scenario.most_users if self.scenario else 1

    def wait_for(self, text: str) -> None:
        """Say what is waited for; "" when the wait is over."""
        for observer in self.observers:
            observer.wait_for(text)

    def findings(self) -> Iterator[Finding]:
        """The findings, as they are made.

        :raises KeyboardInterrupt: it was stopped.
        """
        config = replace(self.config, fewer_workers_ok=True)  # all hosts are reported
        with own_hub(), self.stack:
            self.ssh = start_ssh_workers(config, self.stack, self.users)
            for row in CHECKS:
                self.stop.check()
                log.info("%s: %s", row.name, row.what)
                if row.needs_login and self.store is None:
                    yield Finding(row.name, Verdict.SKIPPED, "not checked without a login")
                    continue
                try:
                    for found in row.find(self):
                        yield found._replace(check=row.name)
                except StorageError as error:
                    yield Finding(row.name, Verdict.FAILED, explained(error))
                except SsbenchError as error:
                    yield Finding(row.name, Verdict.FAILED, str(error))
                except OSError as error:
                    yield Finding(row.name, Verdict.FAILED, error.strerror or str(error))
                for text in self.warnings:
                    yield Finding(row.name, Verdict.WARNING, text)
                self.warnings.clear()


#: What a check gives: ``Doctor.findings`` adds its name.
_ok = partial(Finding, "", Verdict.OK)
_warning = partial(Finding, "", Verdict.WARNING)
_failed = partial(Finding, "", Verdict.FAILED)
_skipped = partial(Finding, "", Verdict.SKIPPED)


def _descriptors(doctor: Doctor) -> Iterator[Finding]:
    config, users = doctor.config, doctor.users
    allow_many_connections()
    limits = host_limits()
    if config.workers:  # as a run does before it starts them
        _, doctor.warnings[:] = users_per_worker(config, users, users, users)
        yield _ok(f"{plural(users, 'user')} in {plural(config.workers, 'worker')} of this host")
        return
    most, why = most_users(limits, url_count(config.store) if config.store else 1)
    if most is None:
        yield _ok("no limit is known")
        return
    found = f"a worker on this host can run {plural(max(most, 0), 'user')}: {why}"
    if most < users:
        yield _warning(found, f"the scenario has {users:,}: raise the limit, or use more workers")
    else:
        yield _ok(found)


def _results(doctor: Doctor) -> Iterator[Finding]:
    given = doctor.config.stats_file
    path = Path(
        given
        or statfile.default_path(
            "doctor", 1, None, None, datetime.now(), results_dir=doctor.config.results_dir
        )
    )
    folder = path.absolute().parent
    if not os.access(folder, os.W_OK | os.X_OK):
        yield _failed(f"{folder} can't be written", "put the results elsewhere with -s")
        return
    if given and path.is_file():
        yield _warning(f"{path} is there", "a run overwrites it only with --force; or name another")
        return
    lacking = check_results_space(str(folder), doctor.scenario)
    if lacking:
        yield _warning(lacking)
    else:
        yield _ok(f"{bytes_text(psutil.disk_usage(str(folder)).free)} free in {folder}")


def _hosts(doctor: Doctor) -> Iterator[Finding]:
    """Nothing without --ssh-workers."""
    if doctor.ssh:
        for fault in doctor.ssh.find_faults(doctor.stop, doctor.wait_for):
            yield _failed(f"{fault.host}: {fault.what}", fault.advice)
        if doctor.ssh.count:
            yield _ok(doctor.ssh.summary)


def _ports(doctor: Doctor) -> Iterator[Finding]:
    doctor.transport = transport = open_ports(
        doctor.config.bound, doctor.stack, doctor.warnings.append, ssh=doctor.ssh
    )
    numbers = ", ".join(map(str, transport.ports))
    secured = "with a key" if transport.has_key else "without a key"
    if not doctor.config.bound.work_port:
        yield _ok(f"the run takes any free ports of {transport.ip}, for its own workers only")
        return
    yield _ok(f"{numbers} of {transport.ip} are free; {secured}")


def _login(doctor: Doctor) -> Iterator[Finding]:
    options = doctor.config.store
    began_s = time.monotonic()
    if options is None:
        store = embedded_store(doctor.stack, doctor.stop)
    else:
        given = replace(options, remote_workers=doctor.config.has_remote_workers)
        store = reach_store(given, doctor.warnings.append, doctor.stop)
    if store.password_equivalent and doctor.transport:
        check_encrypted(doctor.transport)
    took_s = time.monotonic() - began_s
    policy = doctor.scenario.policy if doctor.scenario else None
    sizes = (
        SizeClass("small", SMALL_BYTES, SMALL_BYTES, ((int(CREATE), 1.0),), 0),
        SizeClass("large", LARGE_BYTES, LARGE_BYTES, ((int(CREATE), 1.0),), 0),
    )
    doctor.settings = replace(
        store.settings, run_id=secrets.token_hex(RUN_ID_BYTES), sizes=sizes, placement=policy,
        container_base=CONTAINER_BASE, container_count=len(names_of(store.settings)) or 1,
        verify=True,
    )  # fmt: skip
    lacking = []
    if doctor.scenario:
        lacking = check_capabilities(
            doctor.settings, doctor.scenario.operations, doctor.scenario.to_dict()
        )
    if lacking:
        yield from (_failed(line) for _key, line in lacking)
        return
    doctor.client = doctor.stack.enter_context(store.client(doctor.settings, 1, retries=1))
    doctor.store = store
    urls, names = store.settings.store.get("urls", ()), names_of(store.settings)
    place = f", {printable(str(urls[0]))}" if urls else ""
    place += f" and {len(urls) - 1} more" if len(urls) > 1 else ""
    place += f", as {plural(len(names), 'identity')}" if names else ""
    expires_at = store.settings.newest.expires_at
    expiry = ""
    if expires_at:
        left_h = (expires_at - time.time()) / 3600
        expiry = f"; expires in {left_h:.1f} h, and a run renews it before"
    yield _ok(f"{store.settings.driver}{place}, in {latency_text(took_s)}{expiry}")


def _limits(doctor: Doctor) -> Iterator[Finding]:
    storage = doctor.client.storage
    doctor.limits = limits = storage.limits()
    doctor.state = state_of(storage)
    if doctor.scenario:
        naming = naming_of(settings_of(doctor.settings, doctor.scenario))
        found = check(limits, doctor.scenario, naming, doctor.state)
        yield from map(_failed, found.faults)
        yield from map(_warning, found.warnings)
        if found.faults or found.warnings:
            return
    stated = [
        text
        for value, text in (
            (limits.max_object_size, f"objects of {bytes_text(limits.max_object_size or 0)}"),
            (limits.max_object_name_length, f"names of {limits.max_object_name_length} bytes"),
            (limits.bulk_delete_max, f"bulk deletes of {limits.bulk_delete_max}"),
        )
        if value
    ]
    against = ", and the scenario is within them" if doctor.scenario else ""
    yield _ok(f"{', '.join(stated)}{against}") if stated else _skipped("the store states none")


def _policy(doctor: Doctor) -> Iterator[Finding]:
    known, wanted = doctor.limits.policies, doctor.settings.placement
    found = check_policy(doctor.limits, wanted)
    yield from (_failed(text, "give one of these with -p") for text in found.faults)
    yield from map(_warning, found.warnings)
    if found == Check():
        if wanted:
            yield _ok(f'"{printable(wanted)}" is there')
        elif known:
            yield _ok(f"the default one, of {', '.join(map(printable, known))}")
        else:
            yield _skipped("the store reports no storage policies")


def _quota(doctor: Doctor) -> Iterator[Finding]:
    free = doctor.state.free_bytes
    if names_of(doctor.settings):
        yield _skipped("not checked: each identity may have a quota of its own")
    elif free is None:
        yield _skipped("the store reports no quota of this user")
    elif free < LARGE_BYTES:
        yield _warning(f"{bytes_text(free)} are left", "delete objects, or raise the quota")
    else:
        yield _ok(f"{bytes_text(free)} are left")


def _clocks(doctor: Doctor) -> Iterator[Finding]:
    ahead_s = doctor.state.seconds_ahead
    if ahead_s is None:
        yield _skipped("the store reports no time")
    elif abs(ahead_s) > _AHEAD_S:
        yield _warning(
            f"this host's clock is {abs(ahead_s):,.0f} s {'ahead of' if ahead_s > 0 else 'behind'}"
            " the store's",
            "set both by NTP, for example with chrony: tokens and S3 signatures depend on it",
        )
    else:
        yield _ok("this host's clock and the store's agree within 2 s")


def _role(doctor: Doctor) -> Iterator[Finding]:
    """PUT, GET and DELETE of a small object by each identity; then round trips and a large one."""
    names = names_of(doctor.settings)
    numbers = range(doctor.settings.container_count)
    objects = [(0, number) for number in numbers]
    with _containers(doctor, objects) as containers, _probe(doctor) as call:
        took_s = {
            name: [_seconds(call, operation, number=number) for number in numbers]
            for name, operation in (("PUT", CREATE), ("GET", READ), ("DELETE", DELETE))
        }
    doctor.operation_s = median(second for each in took_s.values() for second in each)
    shown = ", ".join(f"{name} {latency_text(max(seconds))}" for name, seconds in took_s.items())
    more = f" and so on, as each of {plural(len(names), 'identity')}; the slowest" if names else ""
    yield _ok(f"an object of {bytes_text(SMALL_BYTES)} in {containers[0]}{more}: {shown}")


def _network(doctor: Doctor) -> Iterator[Finding]:
    if not row_of(doctor.settings.driver).is_real:
        yield _skipped("nothing is sent")
        return
    if doctor.operation_s is None:
        yield _skipped("not checked without the role")
        return
    most = doctor.limits.max_object_size or LARGE_BYTES
    if doctor.state.free_bytes is not None:
        most = min(most, doctor.state.free_bytes // 4)
    with _containers(doctor, [(0, 0), (1, 0)]), _probe(doctor) as call:
        call(CREATE, 0, SMALL_BYTES, 0)
        trips = [_seconds(call, HEAD) for _ in range(_ROUND_TRIPS)]
        for size in [size for size in _TRANSFERS if size <= most] or [most]:
            sent_s = _seconds(call, CREATE, 1, size)
            if sent_s > 1:
                break
        received_s = _seconds(call, READ, 1, size)
    trip_s = median(trips)
    rates = size / max(sent_s, 1e-9), size / max(received_s, 1e-9)
    doctor.bytes_per_s = min(rates)
    result = (
        f"from this host: HEAD {latency_text(trip_s)} (median of {_ROUND_TRIPS});"
        f" {bytes_text(size)} by one connection: {bytes_text(round(rates[0]))}/s there,"
        f" {bytes_text(round(rates[1]))}/s back"
    )
    if trip_s > _SLOW_ROUND_TRIP_S:
        yield _warning(
            result,
            "users wait for each response: use more of them, or workers near the store; see"
            " check-network",
        )
    else:
        yield _ok(result)


#: ``call(operation, size class, bytes, number)``: performs it on that object of the class.
_Call = Callable[[int, int, int, int], Timing]


@contextmanager
def _containers(doctor: Doctor, objects: Sequence[tuple[int, int]]) -> Iterator[list[str]]:
    """Makes the containers of objects, (size class, number) each; deletes both."""
    client, naming = doctor.client, naming_of(doctor.settings)
    held: dict[str, list[str]] = {}
    for place in objects:
        held.setdefault(naming.container(*place), []).append(naming.object(*place))
    made: list[str] = []
    try:
        for name in held:
            make_containers(client, [name], policy=doctor.settings.placement)
            made.append(name)
        yield made
    finally:
        for name in made:
            try:
                for held_name in held[name]:
                    client.call(client.storage.delete_object, name, held_name)
                client.call(client.storage.delete_container, name)
            except SsbenchError as error:
                doctor.warnings.append(
                    f"{name} could not be deleted: {error}; cleanup-containers -b {CONTAINER_BASE}"
                    " tries again"
                )


@contextmanager
def _probe(doctor: Doctor) -> Iterator[_Call]:
    """Calls the store as a worker does."""
    store: ObjectStore = open_store(doctor.settings)

    def call(operation: int, size_class: int, size: int, number: int) -> Timing:
        doctor.stop.check()
        deadline_ns = perf_counter_ns() + int(_TRANSFER_S * 1e9)
        job = Job(1, operation, size_class, number, 0, size)
        return store.actions[operation](job, deadline_ns)

    try:
        store.connect(1)
        yield call
    finally:
        store.close()


def _seconds(
    call: _Call, operation: int, size_class: int = 0, size: int = SMALL_BYTES, number: int = 0
) -> float:
    began_ns = perf_counter_ns()
    call(operation, size_class, size, number)
    return (perf_counter_ns() - began_ns) / 1e9


def _workers(doctor: Doctor) -> Iterator[Finding]:
    config, transport = doctor.config, doctor.transport
    if transport is None:
        yield _skipped("not checked without ports")
        return
    ssh = doctor.ssh
    of_others = max((config.expect_workers or 0) - (config.workers or 0), ssh.count if ssh else 0)
    if of_others <= 0 and config.workers:
        cores = plural(usable_cores(), "core")
        yield _ok(f"{plural(config.workers, 'worker')} of this host, {cores}; started by the run")
        return
    if of_others <= 0 and ssh:
        yield _skipped("not checked: no host started any")
        return
    times = _UploadTimes()
    master = Master(
        transport, doctor.observers, doctor.settings, replace(config, drain_timeout_s=_UPLOADS_S),
        recorder=times, warn=doctor.warnings.append, children=[ssh] if ssh else [],
    )  # fmt: skip
    for observer in doctor.observers:
        observer.info("Waiting for workers")
    doctor.stop.listen(master.interrupt)
    began_s = time.monotonic()
    try:
        master.gather_workers(of_others or None)
        waited_s = time.monotonic() - began_s
        workers = master.workers
        doctor.workers = [each for each in workers.present.values() if not each.metrics_only]
        deadline_s = time.monotonic() + _CLOCKS_S
        while time.monotonic() < deadline_s and not doctor.stop.requested:
            if all(w.wall_offset_ns is not None for w in doctor.workers):
                break
            master.keep_workers_once()
            time.sleep(_POLL_S)
        for worker in doctor.workers:
            hello = worker.hello
            cores = f", {plural(hello.cores, 'core')}" if hello.cores else ""
            users = plural(hello.concurrency, "user")
            yield _ok(f"{worker.name}: ssbench {hello.version}, {users}{cores}")
        for reason in workers.refused.values():
            yield _failed(f"a worker was refused: {reason}")
        if config.looks_for_workers and not workers.present and not workers.refused:
            yield _ok("none is there: the run starts its own on this host")
        else:
            yield from _missing_workers(doctor, transport, of_others, waited_s)
        if doctor.workers and doctor.operation_s and row_of(doctor.settings.driver).is_real:
            yield from _uploads(doctor, master, times)
    finally:
        master.release_workers()
    if doctor.stop.requested:
        doctor.stop.end()


class _UploadTimes:
    """Implements ``ssbench.master.recorder.Recorder``: keeps how long uploads took."""

    def __init__(self) -> None:
        self.seconds: dict[int, list[float]] = {}  #: by index of the worker

    def append_results(self, phase: Phase, worker: int, schema: Schema, packed: bytes) -> None:
        names = tuple(name for name, _ in schema)
        batch = ResultBatch(phase, worker, packed_count(packed, len(names)), names, packed)
        for took_ns, error in zip(batch.column("last_byte_ns"), batch.column("error"), strict=True):
            if not error:
                self.seconds.setdefault(worker, []).append(took_ns / 1e9)

    def write(self, record: Record) -> None:
        """Workers and phases are known."""

    def tick(self, now_s: float) -> None:
        """Nothing is buffered."""


def _uploads(doctor: Doctor, master: Master, times: _UploadTimes) -> Iterator[Finding]:
    """Small objects that each worker uploads: whether it reaches the store, and how fast."""
    count = _ROUND_TRIPS * len(doctor.workers)
    objects = [(0, number) for number in range(count)]
    with _containers(doctor, objects):
        workload = EnsureWorkload(((*each, SMALL_BYTES) for each in objects), count)
        plan = PhasePlan(Phase.POPULATE, workload, len(doctor.workers), _UPLOADS_S)
        outcome = master.run_phase(plan)
    medians = {
        worker.name: median(times.seconds[worker.index])
        for worker in doctor.workers
        if worker.index in times.seconds
    }
    idle = ", ".join(worker.name for worker in doctor.workers if worker.name not in medians)
    if idle or outcome.counts.failed:
        example = f": {outcome.example}" if outcome.example else ""
        yield _failed(
            f"{plural(outcome.counts.failed, 'upload')} by workers failed{example}"
            + f"; none succeeded of {idle}" * bool(idle),
            "can these hosts reach the store: its name, its port, firewalls between?",
        )
    else:
        slowest = max(medians, key=lambda name: medians[name])
        yield _ok(
            f"uploads of {bytes_text(SMALL_BYTES)} by {plural(len(medians), 'worker')}: median"
            f" {latency_text(medians[slowest])} by the slowest, {slowest}"
        )


def _missing_workers(
    doctor: Doctor, transport: MasterTransport, expected: int, waited_s: float
) -> Iterator[Finding]:
    """:param expected: workers of other hosts; 0: any number."""
    config, joined = doctor.config, len(doctor.workers)
    unreached = []
    if doctor.ssh:
        names = {worker.hello.worker_id for worker in doctor.workers}
        unreached = doctor.ssh.not_joined(names, transport.ports)
        for fault in unreached:
            yield _failed(f"{fault.host}: {fault.what}", fault.advice)
    ports = ", ".join(map(str, transport.ports))
    if joined < max(expected, 1) and not unreached:
        seen = f"{joined} of {expected} workers" if expected else plural(joined, "worker")
        bind_to = " of this host only: bind another address with --zmq-bind-ip"
        yield _failed(
            f"{seen} joined within {waited_s:.0f} s at ports {ports} of {transport.ip}",
            "start ssbench-worker with --zmq-host and this host's name and the same key file, and"
            " open these ports in the firewalls between; or give --workers N"
            + (f"; {transport.ip} is{bind_to}" if transport.is_loopback else ""),
        )
    users = sum(worker.hello.concurrency for worker in doctor.workers)
    if joined and not config.workers and users < doctor.users:
        yield _warning(
            f"the workers can run {users:,} of {doctor.users:,} users",
            "start more, or with more users each: ssbench-worker -c",
        )


def _bottleneck(doctor: Doctor) -> Iterator[Finding]:
    """What limits the rate first, if the store is as fast under load as it is now."""
    scenario = doctor.scenario
    if scenario is None:
        yield _skipped("name a scenario with -f")
        return
    if doctor.operation_s is None or not doctor.bytes_per_s:
        yield _skipped("not known without the checks of role and network")
        return
    weights = [size.initial_files or 1 for size in scenario.sizes]
    sizes = [mean_size(size) for size in scenario.sizes]
    size = sum(a * b for a, b in zip(weights, sizes, strict=True)) / sum(weights)
    each_s = doctor.operation_s + size / doctor.bytes_per_s
    hosts = {worker.hello.host: worker.hello.cores for worker in doctor.workers}
    cores = sum(hosts.values()) or min(usable_cores(), doctor.config.workers or 1)
    bounds = {
        f"{plural(scenario.most_users, 'user')} at {latency_text(each_s)} an operation": (
            scenario.most_users / each_s
        ),
        f"the load generator, {plural(cores, 'core')}": float(cores * _OPERATIONS_OF_CORE),
    }
    link = max((each.speed for each in psutil.net_if_stats().values() if each.isup), default=0)
    if link and size and row_of(doctor.settings.driver).urls:
        bounds[f"this host's network, {link:,} Mbit/s"] = link * 125_000 / size
    rates = [stage.rate for stage in scenario.load if stage.rate]
    wanted = max(rates, default=0.0)
    first = min(bounds, key=lambda name: bounds[name])
    found = f"at most about {bounds[first]:,.0f} operations/s: {first}"
    if wanted > bounds[first]:
        yield _warning(
            f"{found}; the scenario asks for {wanted:,.0f}", "use more users, workers or hosts"
        )
    elif not wanted and first != next(iter(bounds)):
        yield _warning(found, "use more hosts or workers, or the run measures these and no store")
    else:
        yield _ok(found)


CHECKS = (
    CheckRow("descriptors", "open files, local ports and memory for the users", _descriptors),
    CheckRow("results", "the folder of the stat file: writable, and space", _results),
    CheckRow("hosts", "those of --ssh-workers: reached, ssbench there, its release, clock", _hosts),
    CheckRow("ports", "the master's three ports: free, and who can reach them", _ports),
    CheckRow("login", "address, certificate, user, password; what the store can't do", _login),
    CheckRow("limits", "what the store accepts, against the scenario", _limits, True),
    CheckRow("policy", "the scenario's storage policy", _policy, True),
    CheckRow("quota", "space that is left for this user", _quota, True),
    CheckRow("clocks", "this host's clock against the store's", _clocks, True),
    CheckRow("role", "PUT, GET and DELETE of an object in a container of our own", _role, True),
    CheckRow("network", "round trips, and a large object there and back", _network, True),
    CheckRow("workers", "who joins: release, users, cores, clocks", _workers),
    CheckRow("bottleneck", "what is expected to limit the rate first", _bottleneck, True),
)


_WIDTH = 100
_NAME = max(len(row.name) for row in CHECKS)
_VERDICT = max(len(verdict.value) for verdict in Verdict)


def doctor(ns: argparse.Namespace) -> ExitStatus:
    """Make the checks and print them; FAILED unless all is well.

    :raises UsageError: options that exclude each other, or a scenario with faults.
    """
    if ns.scenario is None:
        if ns.users is not None or ns.policy is not None:
            raise UsageError("-u and -p change a scenario: give that with -f")
        config, scenario = RunConfig(**base_config(ns, os.environ)), None
    else:
        config = run_config(ns, os.environ)
        scenario = resolve(config)
    found: list[Finding] = []
    with watched(ns, "none") as (progress, stop):
        for each in Doctor(config, scenario, [progress], stop).findings():
            found.append(each)
            for line in _lines(each):
                say(line)
    wrong = [each for each in found if each.verdict in (Verdict.WARNING, Verdict.FAILED)]
    if not wrong:
        say("All is well.")
        return ExitStatus.OK
    failed = sum(each.verdict is Verdict.FAILED for each in wrong)
    tell(f"ssbench-master: {plural(len(wrong) - failed, 'warning')}, {failed} failed")
    return ExitStatus.FAILED


def _lines(found: Finding) -> Iterator[str]:
    """A row, wrapped; what to do about it in lines of its own."""
    head = f"{found.verdict.value:{_VERDICT}}  {found.check:{_NAME}}  "
    indent = " " * len(head)
    for first, text in ((head, found.result), (f"{indent}-> ", found.advice)):
        for line in printable_lines(text).split("\n") if text else ():
            yield from wrapped(line, _WIDTH, first, indent)
            first = indent
