"""The workers of a soak, and their faults."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.faults import Fault
from benchmarks.soak.memory import Memory
from tests.e2e.commands import WORKER, clean_environment
from tests.e2e.namespaces import Namespace
from tests.e2e.warm import ROOT

#: What may happen to each worker. The first two live from the beginning to the end, so that their
#: memory can be judged.
SLOTS = (
    frozenset({"stop"}),
    frozenset({"stop", "cut"}),
    frozenset({"kill", "stop"}),
    frozenset({"kill", "stop", "cut"}),
)
#: Of the range that is set aside for benchmarks of networks: where master and store are.
CENTRE = "198.18.255.1"
#: A worker that is told to end has ended after so long.
END_S = 30.0


@dataclass
class Slot:
    """A place for a worker; a new one follows each that ends."""

    index: int
    host: Namespace | None  #: its own, where its cable can be cut
    process: subprocess.Popen[bytes] | None = None
    worker_id: str = ""
    logs: list[Path] = field(default_factory=list)


class Workers:
    """Processes and networks of the workers; a context manager, which removes both.

    :param options: of ssbench-worker, the master's ports among them.
    """

    def __init__(self, place: Path, options: Sequence[str], memory: Memory) -> None:
        self._place = place
        self._options = options
        self._memory = memory
        self._opened = contextlib.ExitStack()
        self._started = 0
        self.slots: list[Slot] = []
        self.begin: dict[str, Callable[[Slot, Fault], None]] = {
            "kill": self._kill, "stop": self._stop, "cut": self._cut,
        }  # fmt: skip
        self.end: dict[str, Callable[[Slot, Fault], None]] = {
            "kill": self._replace, "stop": self._go_on, "cut": self._mend,
        }  # fmt: skip

    def __enter__(self) -> Workers:
        with contextlib.ExitStack() as opened:
            opened.callback(self._kill_all)
            for index, kinds in enumerate(SLOTS):
                host = None
                if "cut" in kinds and in_namespace():
                    host = opened.enter_context(Namespace("--net"))
                    _connect(index, host)
                self.slots.append(Slot(index, host))
                self._start(self.slots[-1], f"worker-{index}")
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def _start(self, slot: Slot, worker_id: str) -> None:
        self._started += 1
        log = self._place / f"{self._started}-{worker_id}.log"
        prefix = slot.host.prefix if slot.host else []
        with log.open("wb") as file:
            slot.process = subprocess.Popen(
                [*prefix, sys.executable, str(WORKER), *self._options, worker_id],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                cwd=ROOT, env=clean_environment(),
            )  # fmt: skip
        slot.worker_id = worker_id
        slot.logs.append(log)
        self._memory.watch(worker_id, slot.process.pid)

    def _kill(self, slot: Slot, fault: Fault) -> None:
        assert slot.process is not None
        slot.process.kill()
        slot.process.wait()

    def _replace(self, slot: Slot, fault: Fault) -> None:
        self._start(
            slot, slot.worker_id if fault.same_id else f"worker-{len(SLOTS) + self._started}"
        )

    def _stop(self, slot: Slot, fault: Fault) -> None:
        assert slot.process is not None
        slot.process.send_signal(signal.SIGSTOP)

    def _go_on(self, slot: Slot, fault: Fault) -> None:
        assert slot.process is not None
        slot.process.send_signal(signal.SIGCONT)

    def _cut(self, slot: Slot, fault: Fault) -> None:
        # At the other end of the cable: at this one, its routes would be gone with it.
        run("ip", "link", "set", f"v{slot.index}", "down")

    def _mend(self, slot: Slot, fault: Fault) -> None:
        run("ip", "link", "set", f"v{slot.index}", "up")

    def dismiss(self) -> list[str]:
        """End all; returns a line for each that did not end, or not properly."""
        wrong = []
        for slot in self.slots:
            if slot.process is not None and slot.process.poll() is None:
                slot.process.terminate()
        for slot in self.slots:
            assert slot.process is not None
            try:
                status = slot.process.wait(END_S)
            except subprocess.TimeoutExpired:
                wrong.append(f"{slot.worker_id} did not end within {END_S:g} s of SIGTERM")
            else:
                if status:
                    wrong.append(f"{slot.worker_id} ended with status {status}")
        return wrong + [
            f"{log.name} has a traceback"
            for slot in self.slots
            for log in slot.logs
            if "Traceback" in log.read_text(errors="replace")
        ]

    def _kill_all(self) -> None:
        for slot in self.slots:
            if slot.process is not None and slot.process.poll() is None:
                slot.process.kill()
                slot.process.wait()


def enter_namespace() -> list[str]:
    """Prefix for our own command that gives it a network namespace."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net"]


def in_namespace() -> bool:
    """Whether this process is in a network namespace prepared by ``set_up``."""
    done = subprocess.run(
        ["ip", "-o", "address", "show", "dev", "lo"], capture_output=True, text=True, check=False
    )
    return CENTRE in done.stdout


def set_up() -> None:
    """Give the new network the address of master and store."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{CENTRE}/32", "dev", "lo")


def _connect(index: int, host: Namespace) -> None:
    """Connect a worker's network with ours."""
    peer = ("peer", "name", "eth0", "netns", str(host.pid))
    run("ip", "link", "add", f"v{index}", "type", "veth", *peer)
    run("ip", "address", "add", f"198.18.{index}.1/24", "dev", f"v{index}")
    run("ip", "link", "set", f"v{index}", "up")
    host.run("ip", "link", "set", "lo", "up")
    host.run("ip", "address", "add", f"198.18.{index}.2/24", "dev", "eth0")
    host.run("ip", "link", "set", "eth0", "up")
    host.run("ip", "route", "add", "default", "via", f"198.18.{index}.1")


def run(*command: str) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
