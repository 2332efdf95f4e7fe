"""Namespaces of Linux for tests: hosts of their own, disks of their own, gone with the test.

Root makes them as they are; anybody else within a user namespace, which Debian allows.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "mount": "mount"}
#: A socket stays in the namespace that it was made in, whoever holds it.
_LISTEN = """if True:
    import socket, sys
    there = socket.socket(fileno=int(sys.argv[1]))
    made = socket.create_server(("0.0.0.0", int(sys.argv[2])))
    socket.send_fds(there, [b"x"], [made.fileno()])
"""
IS_ROOT = os.geteuid() == 0
#: From the kernel's headers; the module os has it from Python 3.12 on.
_CLONE_NEWUTS = 0x04000000
#: Flag of unshare -> file in /proc.
_KINDS = {"--net": "net", "--mount": "mnt"}


class Namespace:
    """A process that holds namespaces; it ends with us, however we end, and they end with it.

    :param flags: of unshare: ``--net``, ``--mount``.
    :param beside: another, whose user namespace this one shares.
    """

    def __init__(self, *flags: str, beside: Namespace | None = None) -> None:
        for tool, package in TOOLS.items():
            assert shutil.which(tool), f"{tool} is missing: apt-get install {package}"
        self._flags = flags
        new_user = [] if IS_ROOT or beside else ["--user", "--map-root-user"]
        self._process = subprocess.Popen(
            [*(beside.user() if beside else []), "unshare", *new_user, *flags,
             "sh", "-c", "echo here; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            _, why = self._process.communicate()
            raise AssertionError(f"no namespaces to be had (neither root nor user's): {why!r}")

    def __enter__(self) -> Namespace:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def user(self) -> list[str]:
        """What to put before a command that is to run in our user namespace."""
        if IS_ROOT:
            return []
        return ["nsenter", "-t", str(self.pid), "--user", "--preserve-credentials"]

    @property
    def prefix(self) -> list[str]:
        """What to put before a command that is to run in here."""
        user = [] if IS_ROOT else ["--user", "--preserve-credentials"]
        return ["nsenter", "-t", str(self.pid), *user, *self._flags]

    def enter(self, hostname: str = "") -> Callable[[], None]:
        """As ``preexec_fn``, moves a command in here.

        :param hostname: the command's host gets this name.
        """
        kinds = [*([] if IS_ROOT else ["user"]), *(_KINDS[flag] for flag in self._flags)]
        return partial(_enter, [f"/proc/{self.pid}/ns/{kind}" for kind in kinds], hostname)

    def run(self, *command: str) -> None:
        """Run a command in here, which must succeed."""
        done = subprocess.run([*self.prefix, *command], capture_output=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode()}"

    def listener(self, port: int) -> socket.socket:
        """A socket that listens in here, on all addresses, and is ours out here."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            command = [*self.prefix, sys.executable, "-c", _LISTEN, str(theirs.fileno()), str(port)]
            subprocess.run(command, pass_fds=[theirs.fileno()], check=True, timeout=30)
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        return socket.socket(fileno=descriptors[0])

    def path(self, path: Path) -> Path:
        """From out here, the path as it is in here."""
        return Path(f"/proc/{self.pid}/root{path}")


def _enter(namespaces: Sequence[str], hostname: str) -> None:
    # All are opened first: in another mount namespace they may be missing.
    descriptors = [os.open(path, os.O_RDONLY) for path in namespaces]
    for fd in descriptors:
        _call("setns", fd, 0)
        os.close(fd)
    if hostname:
        _call("unshare", _CLONE_NEWUTS)
        socket.sethostname(hostname)


def _call(name: str, *arguments: int) -> None:
    """Call a function of the C library that the module os has from Python 3.12 on."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


class Network:
    """A master's host and its workers' hosts, each with a cable to the master's."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._opened = ExitStack()

    def __enter__(self) -> Network:
        with ExitStack() as opened:
            self.master = opened.enter_context(Namespace("--net"))
            self.workers: Sequence[Namespace] = [
                opened.enter_context(Namespace("--net", beside=self.master))
                for _ in range(self._count)
            ]
            self.master.run("ip", "link", "set", "lo", "up")
            for index, worker in enumerate(self.workers):
                self._connect(index, worker)
            self._opened = opened.pop_all()
        return self

    def _connect(self, index: int, worker: Namespace) -> None:
        ours = f"v{index}"
        peer = ("peer", "name", "eth0", "netns", str(worker.pid))
        self.master.run("ip", "link", "add", ours, "type", "veth", *peer)
        _bring_up(self.master, ours, self.master_address(index))
        # The range that is set aside for benchmarks of networks.
        _bring_up(worker, "eth0", f"198.18.{index}.2")

    def master_address(self, index: int) -> str:
        """Of the master, as this worker sees it."""
        return f"198.18.{index}.1"

    def __exit__(self, *exc: object) -> None:
        self._opened.close()


def _bring_up(host: Namespace, device: str, address: str) -> None:
    host.run("ip", "address", "add", f"{address}/24", "dev", device)
    host.run("ip", "link", "set", device, "up")
