"""Runs against a store that breaks what it is told to break, with an eye on memory and time."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any, NamedTuple

import psutil

from ssbench.core.model import ErrorKind
from tests.e2e.commands import LONGEST_S, Commands, Ended, Started, free_ports, rows_of
from tests.e2e.faults.matrix import Account, Row
from tests.fakes.hostile_swift import HostileSwift
from tests.fakes.loopback_http import Behaviour
from tests.timing import STALL_S

#: What the errors of a store that stalls say.
SILENT, UNFINISHED = f"silent for {STALL_S:g} s", f"headers unfinished after {STALL_S:g} s"
TOO_LONG = "headers of more than 65536 bytes"
TIMEOUTS = ("--connect-timeout", STALL_S, "--network-timeout", STALL_S)

#: Of master and worker each, at their highest; they begin with 40 to 60 MB.
MEMORY_MAX_MB = 160


@dataclass(frozen=True)
class Fault:
    """What the store does, and what the report is to say of it."""

    behaviour: Behaviour
    kind: ErrorKind
    words: str  #: in the detail, a regular expression
    status: int = 0

    @property
    def unanswered(self) -> bool:
        """Whether it is a connection that ends without a byte of a response."""
        return self.kind is ErrorKind.DISCONNECTED

    @property
    def sign(self) -> str:
        """What it can be told by; several may look alike."""
        return f"{self.kind.label} {self.status or '-'}: {self.words}"


class Peaks(NamedTuple):
    """Highest resident memory in MB."""

    master: float
    worker: float


def watch(started: Started, longest_s: float = LONGEST_S) -> tuple[Ended, Peaks]:
    """Wait for the end of a command; watch its memory, and that of its workers, meanwhile."""
    deadline = time.monotonic() + longest_s
    master = worker = 0.0
    children: list[psutil.Process] = []
    while started.process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(psutil.NoSuchProcess):
            master = max(master, _peak_mb(started.pid))
            children = children or psutil.Process(started.pid).children()
            worker = max([worker, *(_peak_mb(child.pid) for child in children)])
        time.sleep(0.05)
    return started.wait(1), Peaks(master, worker)


def _peak_mb(pid: int) -> float:
    """High-water mark of a process; 0 where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


@dataclass
class Bench:
    """A worker that stays, and masters in this process, one after another."""

    commands: Commands
    ports: list[str]
    worker: Started

    @classmethod
    def begin(cls, commands: Commands) -> Bench:
        ports = free_ports()
        # The number of attempts is a worker's own setting.
        return cls(commands, ports, commands.worker("--retries", 0, *ports))

    def run(self, swift: HostileSwift, *options: object, **keys: object) -> Ended:
        """Against the store, without a second attempt."""
        path = self.commands.place / f"{secrets.token_hex(4)}.stat.gz"
        words = ["-f", self.commands.scenario(**keys), "-s", path, "--expect-workers", 1]
        return self.call("run-scenario", *words, *self.ports, *options_for(swift), *options,
                         stat_file=path)  # fmt: skip

    def call(self, *words: object, **options: Any) -> Ended:
        """A command, which takes little memory."""
        before_kb = getrusage(RUSAGE_SELF).ru_maxrss
        ended = self.commands.call(*words, **options)
        grown_mb = (getrusage(RUSAGE_SELF).ru_maxrss - before_kb) / 1024
        assert grown_mb < MEMORY_MAX_MB / 2
        assert _peak_mb(self.worker.pid) < MEMORY_MAX_MB
        return ended


def login_at(swift: HostileSwift) -> list[object]:
    return ["-A", swift.auth_url, "-U", "test:tester", "-K", "testing", *TIMEOUTS]


def options_for(swift: HostileSwift) -> list[object]:
    """Who we are, short timeouts and no second attempt: each strike is one failure."""
    return [*login_at(swift), "--retries", 0]


def judged(ended: Ended, account: Account) -> None:
    """The status is that of a failed run where more than half of its operations failed."""
    ended.fine(1 if account.failed > account.done else 0)


def survives(
    commands: Commands,
    row: Row,
    swift: HostileSwift,
    faults: Mapping[str, Fault | None],
    *options: object,
    **scenario: object,
) -> Ended:
    """Run against the store: each strike is a failure of its kind, and nothing else fails."""
    keys = {"crud_profile": [0, 1, 0, 0], "operation_count": 40, **scenario}
    path = commands.scenario(**keys)
    started = commands.start_run("-f", path, *options_for(swift), *options, workers=1)
    ended, peaks = watch(started)
    assert max(peaks) < MEMORY_MAX_MB, peaks
    account = row.accounted(ended.stats)
    judged(ended, account)
    assert (account.sent, account.lost) == (keys["operation_count"], 0)
    told, struck = failures(ended, faults), signs(swift.struck, faults)
    assert told == struck, (told, struck)
    row.saw(
        ", ".join(f"{count} {kind}" for kind, count in sorted(kinds(ended).items()))
        + f"; {ended.took_s:.0f} s; at most {max(peaks):.0f} MB a process"
    )
    return ended


def signs(struck: Mapping[str, int], faults: Mapping[str, Fault | None]) -> Counter[str]:
    """How often a sign must be among the results, by how often each fault struck."""
    counted: Counter[str] = Counter()
    for name, fault in faults.items():
        if fault and struck[name]:
            counted[fault.sign] += struck[name]
    return counted


def failures(ended: Ended, faults: Mapping[str, Fault | None]) -> Counter[str]:
    """How often each fault's sign is among the results; an error without one fails."""
    return Counter(_sign_of(result, faults) for result in rows_of(ended.results) if result["error"])


def _sign_of(result: Mapping[str, object], faults: Mapping[str, Fault | None]) -> str:
    seen = (result["error"], result["status"])
    for fault in faults.values():
        found = fault and re.search(fault.words, str(result["detail"]))
        if fault and found and seen == (fault.kind, fault.status):
            return fault.sign
    raise AssertionError(f"no fault that was made: {result}")


def kinds(ended: Ended) -> dict[str, int]:
    """Errors by cause, as the report counts them; the report has each of them."""
    counted: Counter[str] = Counter()
    for (kind, status), error in ended.stats.errors.items():
        label = ErrorKind(kind).label
        shown = str(status) if status else "-"
        assert re.search(rf"^ *{error.count}  {label} +{shown} ", ended.out, re.MULTILINE)
        counted[f"{label} {status}" if status else label] += error.count
    return dict(counted)
