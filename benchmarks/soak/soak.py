"""Runs a soak: starts everything, causes the faults, waits for the end."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop
from pathlib import Path

from benchmarks.soak.faults import KINDS, Fault, draw
from benchmarks.soak.memory import Memory, save
from benchmarks.soak.store import TOKEN_LIFE_S, SoakedSwift, answers
from benchmarks.soak.verdict import HUNG_S, Accounts, accounts
from benchmarks.soak.workers import CENTRE, SLOTS, Workers, in_namespace
from ssbench.embedded.plan import SwiftOptions
from ssbench.transport.key import CurveKey
from tests.e2e.commands import MASTER, clean_environment, free_ports
from tests.e2e.warm import ROOT

#: As many DELETEs as CREATEs: the population stays as large as it is.
SCENARIO = {
    "name": "Soak",
    "sizes": [
        {"name": "tiny", "size_min": 500, "size_max": 8000, "crud_profile": [1, 3, 1, 1]},
        {"name": "small", "size_min": 20000, "size_max": 200000, "crud_profile": [1, 3, 1, 1]},
    ],
    "initial_files": {"tiny": 150, "small": 50},
    "operation_count": 1,
    "user_count": 16,
    "container_count": 8,
    "container_base": "soak",
}
#: How long everything before and after the run may take.
START_S = 120.0
FINISH_S = 300.0
SAMPLE_EVERY_S = 1.0
#: Whose fault it is when a worker is given up that had none: a host with too much to do lets a
#: process wait for longer than half the worker time-out.
NO_FAULT = "none"

_LOST = re.compile(r"Lost worker .*?pid (\d+)\): .*; (\d+) operations were lost")


@dataclass
class FaultCount:
    """Consequences of the faults of one kind, from the master's messages."""

    times: int = 0
    seconds: float = 0.0
    given_up: int = 0  #: workers
    lost: int = 0  #: operations


@dataclass
class Outcome:
    """Everything that a soak found."""

    memory: Memory
    faults: dict[str, FaultCount] = field(
        default_factory=lambda: {kind: FaultCount() for kind in (*KINDS, NO_FAULT)}
    )
    wrong: list[str] = field(default_factory=list)
    accounts: Accounts | None = None
    status: int | None = None  #: of the master
    well: list[str] = field(default_factory=list)  #: workers that nothing kept from their work
    rejected: Counter[int] = field(default_factory=Counter)  #: answers above 399, by status


class Soak:
    """One soak.

    :param place: an empty directory for files.
    """

    def __init__(self, place: Path, seconds: float, seed: int, kinds: Sequence[str]) -> None:
        self.place = place
        self.seconds = seconds
        self.faults = draw(random.Random(seed), seconds - 10, kinds, SLOTS)
        self.memory = Memory()
        self.outcome = Outcome(self.memory)
        self._seed = seed
        self._cause: dict[int, Fault] = {}  # a worker's pid -> the newest fault that hit it
        self._read = 0  # of what the master said

    def run(self) -> Outcome:
        """Run it, for at most ``seconds`` and the limits above."""
        with contextlib.ExitStack() as opened:
            host = CENTRE if in_namespace() else "127.0.0.1"
            self.swift = SoakedSwift(SwiftOptions(host=host, token_life_s=TOKEN_LIFE_S))
            opened.enter_context(self.swift)
            self._start_master(host)
            opened.callback(self._end_master)
            ports = [*self._ports, "--zmq-host", host, *self._key_options]
            workers = Workers(self.place, ["-c", "16", *ports], self.memory)
            self.workers = opened.enter_context(workers)
            self._soak()
            save(self.memory.tracks, self.place / "memory.csv")
            self._name_the_well()
            self.outcome.wrong += self.workers.dismiss()
            if self.outcome.status is not None:
                self._account()
        return self.outcome

    def _start_master(self, host: str) -> None:
        key = self.place / "key"
        CurveKey.generate().save(str(key))
        self._key_options = ["--zmq-key-file", str(key)]
        self._ports = free_ports(host)
        scenario = self.place / "soak.scenario"
        scenario.write_text(json.dumps(SCENARIO))
        self.stat_file = self.place / "soak.stat.gz"
        self._said = self.place / "master.err"
        words = [
            "run-scenario", "-f", scenario, "-r", f"{self.seconds:g}", "--seed", self._seed,
            "-s", self.stat_file, "--expect-workers", len(SLOTS), "--worker-wait", 60,
            "--zmq-bind-ip", host, *self._ports, *self._key_options, "--progress", "live",
            "-A", self.swift.auth_url, "-U", self.swift.user,
        ]  # fmt: skip
        with (self.place / "report.txt").open("wb") as out, self._said.open("wb") as err:
            self._master = subprocess.Popen(
                [sys.executable, str(MASTER), *map(str, words)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                cwd=ROOT, env={**clean_environment(), "ST_KEY": self.swift.key},
            )  # fmt: skip
        self.memory.watch("master", self._master.pid)

    def _end_master(self) -> None:
        if self._master.poll() is None:
            self._master.kill()
            self._master.wait()

    def _soak(self) -> None:
        """Run the master, and cause the faults meanwhile."""
        deadline_s = time.monotonic() + START_S
        while "Benchmark run" not in self._said.read_text():
            if self._over(deadline_s, "did not begin its run"):
                return
            self._pause()
        began_s = time.monotonic()
        todo = [(f.at_s, 0, n, f) for n, f in enumerate(self.faults)]
        todo += [(f.until_s, 1, n, f) for n, f in enumerate(self.faults)]
        heapify(todo)
        deadline_s = began_s + self.seconds + FINISH_S
        while not self._over(deadline_s, "did not end"):
            while todo and todo[0][0] <= time.monotonic() - began_s:
                _, ending, _, fault = heappop(todo)
                self._do(fault, ending=bool(ending))
            self._listen()
            self._pause()
        self._listen()

    def _over(self, deadline_s: float, why: str) -> bool:
        self.outcome.status = self._master.poll()
        if self.outcome.status is not None:
            return True
        if time.monotonic() > deadline_s:
            self.outcome.wrong.append(f"the master {why} in time; it is ended")
            return True
        return False

    def _pause(self) -> None:
        self.memory.sample()
        time.sleep(SAMPLE_EVERY_S - time.time() % SAMPLE_EVERY_S)

    def _do(self, fault: Fault, *, ending: bool) -> None:
        if not ending:
            came = self.outcome.faults[fault.kind]
            came.times += 1
            came.seconds += fault.seconds
        if fault.slot is not None:
            slot = self.workers.slots[fault.slot]
            if not ending and slot.process is not None:
                self._cause[slot.process.pid] = fault
            (self.workers.end if ending else self.workers.begin)[fault.kind](slot, fault)
            return
        role = {"401": "proxy", "503": "object"}[fault.kind]
        if ending:
            self.swift.revive(role)
        else:
            self.swift.kill(role)

    def _listen(self) -> None:
        """Workers that the master declared lost, by the fault that caused it."""
        text = self._said.read_text(errors="replace")
        whole = text.rfind("\n") + 1
        for pid, lost in _LOST.findall(text[self._read : whole]):
            fault = self._cause.get(int(pid))
            came = self.outcome.faults[fault.kind if fault else NO_FAULT]
            came.given_up += 1
            came.lost += int(lost)
        self._read = whole

    def _name_the_well(self) -> None:
        """Workers that had time to recover from their last fault."""
        for slot in self.workers.slots:
            ends_s = [fault.until_s for fault in self.faults if fault.slot == slot.index]
            if max(ends_s, default=0.0) < self.seconds - HUNG_S:
                self.outcome.well.append(slot.worker_id)

    def _account(self) -> None:
        outcome = self.outcome
        if outcome.status not in (0, 6):
            outcome.wrong.append(f"the master's exit status is {outcome.status}")
        if "Traceback" in self._said.read_text(errors="replace"):
            outcome.wrong.append("the master printed a traceback")
        logged = []
        for identifier, answer in answers(self.swift):
            logged.append((identifier, answer))
            if answer.status >= 400:
                outcome.rejected[answer.status] += 1
        outcome.accounts = accounts(self.stat_file, logged)
        outcome.wrong += outcome.accounts.wrong()


def terminate_with_us() -> None:
    """Handle SIGTERM like Ctrl-C, so that all child processes end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
