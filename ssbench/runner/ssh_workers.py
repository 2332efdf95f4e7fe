"""Workers that a run starts on other hosts over the user's own ssh, and that end with it.

On each host ssh starts one ``ssbench-worker --processes --parent-pipe 0``. It reports on standard
output what it started (``transport.parent_pipe``), and waits at standard input for the master's
address and key, which are never on a command line. Standard input stays open: when the master ends,
in whatever way, so does ssh, and with it the workers. Standard error is the workers' log.
"""

from __future__ import annotations

import logging
import os
import re
import selectors
import shlex
import socket
import subprocess  # nosec B404 # runs the user's ssh
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

from ssbench import __version__
from ssbench.core.errors import NoWorkersError, UsageError
from ssbench.core.model import WorkerExit
from ssbench.core.text import first_of, plural, printable
from ssbench.host.process import child_environment
from ssbench.runner.local_workers import worker_options
from ssbench.transport.parent_pipe import GroupStarted, address_line, from_line

if TYPE_CHECKING:
    from ssbench.core.hostlist import SshHost
    from ssbench.core.model import Group
    from ssbench.runner.config import RunConfig
    from ssbench.runner.stop import Stop
    from ssbench.transport.master_transport import MasterTransport

log = logging.getLogger(__name__)

#: No password is asked for, no terminal and no forwarding is wanted, whatever the user's
#: configuration says for sessions of people.
_SSH_OPTIONS = (
    "-a", "-x", "-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes",
    "-o", "RemoteCommand=none",
)  # fmt: skip
_SSH_FAILED, _NOT_FOUND = 255, 127  #: exit statuses of ssh and of shells
#: What ssh says -> what to do about it.
_REMEDIES = (
    ("host key verification failed",
     "connect once by hand (ssh {host}) to check its host key and accept it"),
    ("permission denied",
     "it accepts no key of yours: load one into ssh-agent, or add yours to its authorized_keys; "
     "passwords are not asked for"),
    ("could not resolve", "check the name, or add the host to ~/.ssh/config"),
    ("", "is the host up, and does sshd listen there? Try: ssh {host} true"),
)  # fmt: skip
_EVERYWHERE = (None, "0.0.0.0", "::")  # nosec B104 # nothing is bound here
_LOG_LEVEL = re.compile(r"\S+ \S+ (?:\S+ )?(DEBUG|INFO|WARNING|ERROR|CRITICAL):")
_CLOCK_SLACK_S = 1.0  #: clocks that differ by less cannot be told from a slow network
_GRACE_S = 10.0  #: for all hosts together
_POLL_S = 0.05
_MOST_READS = 16  #: at a time, of each stream
_LONGEST_LINE = 8192  #: bytes
_MOST_FAULTS = 10  #: hosts named in an error
_MOST_NAME = 56  #: characters of a host's name in that of a worker, which has 64
#: What to do if workers were started, and did not join.
UNREACHED = "does a firewall keep them from those ports, or is it another address (--ssh-master)?"


class HostFault(NamedTuple):
    """Why the run can't use a host, or some of its workers."""

    host: str
    what: str
    advice: str  #: what to do about it

    def __str__(self) -> str:
        return f"{self.host}: {self.what}; {self.advice}"


def start_ssh_workers(
    config: RunConfig, stack: ExitStack, most_users: int, groups: Sequence[Group] = ()
) -> SshWorkers | None:
    """Start workers on the hosts of ``config.ssh_workers``; they end with the stack.

    :param most_users, groups: as of ``start_local_workers``.
    :returns: None if there are no such hosts. They are to be waited for.
    :raises UsageError: the configuration's ssh can't be run.
    """
    if not config.ssh_workers:
        return None
    # If hosts may fail, each worker offers to run all users, so that the others can replace them.
    each = most_users if config.fewer_workers_ok else config.users_each(most_users, groups)
    arguments, hidden = worker_options(config, each)
    if "--verbose" in config.worker_command:
        arguments.append("--verbose")
    return stack.enter_context(SshWorkers(config, arguments, hidden))


class SshWorkers:
    """One ssh for each host, from entering the context to its end.

    :param arguments: options of each worker.
    :param hidden: environment variables that ssh must not see.
    """

    def __init__(
        self, config: RunConfig, arguments: Sequence[str], hidden: Collection[str] = ()
    ) -> None:
        self.warnings: list[str] = []  #: for the user, once there is a run
        #: No other worker can join: the key was made for these only.
        self.exclusive = False
        self._config = config
        self._command = config.ssh_worker_command or "ssbench-worker"
        self._arguments = arguments
        self._environment = child_environment(hidden)
        self._hosts: list[_Host] = []
        self._failed: list[_Host] = []  # a run with fewer workers goes on without them
        self._streams = selectors.PollSelector()  #: of their output; it needs no descriptor

    def __enter__(self) -> SshWorkers:
        try:
            for host in self._config.ssh_workers or ():
                self._start(host)
        except BaseException:
            self.end()
            raise
        return self

    def _start(self, host: SshHost) -> None:
        config, name = self._config, _worker_name(host, len(self._hosts))
        words = [
            "--processes", str(host.processes or "auto"), "--parent-pipe", "0",
            "--exit-with-master", *self._arguments, name,
        ]  # fmt: skip
        remote = f"{self._command} {shlex.join(words)}"
        try:
            process = subprocess.Popen(  # nosec B603 # the user's own command
                [*config.ssh_command, *_SSH_OPTIONS, "--", host.target, remote],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # a Ctrl-C on the terminal is for the master only
                bufsize=0,
            )
        except OSError as error:
            reason = f"{config.ssh_command[0]}: {error.strerror}"
            raise UsageError(f"--ssh-command: can't be run: {reason}") from error
        made = _Host(host, process)
        self._hosts.append(made)
        for fd in made.buffers:
            os.set_blocking(fd, False)
            self._streams.register(fd, selectors.EVENT_READ, made)

    def wait_until_started(self, stop: Stop, waiting: Callable[[str], None]) -> None:
        """Wait until every host has started its workers; warns of hosts that can't be used if
        others can.

        :raises NoWorkersError: some host can't, and not ``fewer_workers_ok``; or none can.
        """
        faults, hosts = self.find_faults(stop, waiting), len(self._config.ssh_workers or ())
        if faults and (not self._config.fewer_workers_ok or not self._hosts):
            raise NoWorkersError(_not_started([*map(str, faults)], hosts))
        if faults:
            started = f"{len(self._hosts)} of {plural(hosts, 'host')} started workers"
            self.warnings.append(f"Only {started}; continuing with {plural(self.count, 'worker')}")
            self.warnings += map(str, faults)

    def find_faults(self, stop: Stop, waiting: Callable[[str], None]) -> list[HostFault]:
        """Wait for the start of workers on every host, at most ``worker_wait_s``.

        :param waiting: called repeatedly with what is waited for.
        :returns: what is wrong with the hosts that can't be used; their ssh is ended.
        :raises KeyboardInterrupt: it was stopped meanwhile.
        """
        deadline_s = time.monotonic() + self._config.worker_wait_s
        while True:
            self._read(_POLL_S)
            open_ = [host for host in self._hosts if host.started is None and not host.has_ended()]
            if not open_ or time.monotonic() >= deadline_s:
                break
            stop.check()
            names = first_of([host.name for host in open_], 3)
            left_s = max(deadline_s - time.monotonic(), 0)
            waiting(f"Waiting for ssbench-worker on {names} ({left_s:.0f} s left)")
        waiting("")
        self._read(0)
        faults = {
            host: HostFault(host.name, *fault)
            for host in self._hosts
            if (fault := self._fault(host))
        }
        for host in faults:
            self._hosts.remove(host)
            self._failed.append(host)
            host.process.terminate()
        return [*faults.values()]

    def _fault(self, host: _Host) -> tuple[str, str] | None:
        """Why a host has no workers for us, and what to do about it; None if it has some."""
        started = host.started
        if started is None:
            return self._why_not_started(host)
        if started.release != __version__:
            what = f"ssbench-worker there is of release {started.release[:64]}, this master of"
            advice = "install the same one there, or name it by --ssh-worker-command"
            return f"{what} {__version__}", advice
        ahead_s = started.clock_s - host.reported_s
        behind_s = host.began_s - started.clock_s
        if max(ahead_s, behind_s) > _CLOCK_SLACK_S:
            which = "ahead of" if ahead_s > 0 else "behind"
            what = f"its clock is at least {max(ahead_s, behind_s):,.0f} s {which} this host's"
            return what, "set both by NTP (chronyc makestep), or errors and logs can't be matched"
        address = self._address_for(host)
        if not address:
            what = "it does not say from which address this host connects to it"
            return what, "give the address by --ssh-master"
        if not self._config.ssh_master and not _is_own(address):
            what = f"it sees this host as {address}, which is no address of this host"
            return what, "is there a jump host, or NAT? Give one that it can reach by --ssh-master"
        return None

    def _why_not_started(self, host: _Host) -> tuple[str, str]:
        """What is wrong, and what to do about it."""
        status, said = host.process.poll(), " | ".join(host.last_lines)
        if status is None:
            what = f"no response within {self._config.worker_wait_s:g} s (--worker-wait)"
            return what, f"try: ssh {host.target} {self._command} --version"
        if status == _SSH_FAILED:
            said = host.last_lines[-1] if host.last_lines else "it does not say why"
            advice = next(remedy for sign, remedy in _REMEDIES if sign in said.lower())
            return f"ssh failed: {said}", advice.format(host=host.target)
        if status == _NOT_FOUND:
            advice = f"install ssbench {__version__} there, or give its path by"
            return f"there is no {self._command} ({said})", f"{advice} --ssh-worker-command"
        what = f"{self._command} ended with status {status}: {said}"
        return what, f"is it of release {__version__}, as here?"

    @property
    def count(self) -> int:
        """Workers that were started; before that, the least number that will be."""
        return sum(
            len(host.started.workers) if host.started else host.given.processes or 1
            for host in self._hosts
        )

    @property
    def bind_address(self) -> str | None:
        """All interfaces that the hosts may see; None: those of IPv4."""
        return "::" if any(":" in address for address in self.addresses) else None

    @property
    def addresses(self) -> list[str]:
        """The master's, as the hosts see it."""
        return sorted({self._address_for(host) for host in self._hosts})

    def _address_for(self, host: _Host) -> str:
        """The master's address as a host sees it; "": unknown."""
        bound = self._config.transport.address
        given = self._config.ssh_master or (bound if bound not in _EVERYWHERE else None)
        return given or (host.started.master if host.started else "")

    def send_addresses(self, transport: MasterTransport, paths: Sequence[str] = ()) -> None:
        """Send each host the master's address and key, and what its workers may use."""
        for host in self._hosts:
            line = address_line(transport, self._address_for(host), paths)
            with suppress(OSError):  # it ended; ``exits`` reports it
                os.write(host.stdin, line.encode("ascii"))

    @property
    def summary(self) -> str:
        """What was started, for the user."""
        hosts = ", ".join(
            f"{host.name} ({len(host.started.workers)})" for host in self._hosts if host.started
        )
        return f"Started {plural(self.count, 'worker')} over ssh: {hosts}"

    def not_joined(self, joined: Collection[str], ports: Sequence[int]) -> list[HostFault]:
        """Hosts whose workers do not reach the master.

        :param joined: names of workers.
        :param ports: the master's.
        """
        found, numbers = [], ", ".join(map(str, ports))
        for host in self._hosts:
            names = host.started.workers if host.started else ()
            missing = sum(name not in joined for name in names)
            if missing:
                what = (
                    f"{missing} of {plural(len(names), 'worker')} did not join: they connect to"
                    f" {self._address_for(host)}, ports {numbers}"
                )
                found.append(HostFault(host.name, what, UNREACHED))
        return found

    def exits(self) -> list[WorkerExit]:
        """Those that have ended since the last call."""
        self._read(0)
        found = []
        for host in self._hosts:
            if host.running and host.has_ended():
                said = f"; its log ends: {' | '.join(host.last_lines)}" if host.last_lines else ""
                reason = f"ssh to {host.name} ended with status {host.process.returncode}{said}"
                for name, pid in host.running.items():
                    host.exits.append(WorkerExit(name, pid, reason))
                host.running.clear()
            found += host.exits
            host.exits.clear()
        return found

    def all_gone(self) -> bool:
        """Whether all of them have ended, and no other worker can join."""
        return self.exclusive and not any(host.running for host in self._hosts)

    def end(self) -> None:
        """End them, and read the rest of their logs."""
        hosts = [*self._hosts, *self._failed]
        for host in hosts:
            host.close_stdin()
            if host.started is None:
                host.process.terminate()
        deadline_s = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline_s and not all(host.has_ended() for host in hosts):
            self._read(_POLL_S)
        for host in hosts:
            host.process.kill()
            host.process.wait()
        self._read(0)
        for fd in [*self._streams.get_map()]:  # held open by a process that ssh left behind
            self._streams.unregister(fd)
        for host in hosts:
            host.close()
        self._hosts.clear()
        self._failed.clear()

    def __exit__(self, *exc: object) -> None:
        self.end()

    def _read(self, wait_s: float) -> None:
        """Read what there is; wait for the first of it."""
        for _ in range(_MOST_READS):  # a host that floods us does not hold up the master
            ready = self._streams.select(wait_s)
            wait_s = 0
            for stream, _ in ready:
                try:
                    data = os.read(stream.fd, 65536)
                except BlockingIOError:
                    continue
                stream.data.receive(stream.fd, data)
                if not data:
                    self._streams.unregister(stream.fd)
            if not ready:
                break


class _Host:
    """A host, its ssh, and what came from it."""

    def __init__(self, given: SshHost, process: subprocess.Popen[bytes]) -> None:
        self.given = given
        self.target = given.target
        self.name = given.name
        self.process = process
        streams = (process.stdin, process.stdout, process.stderr)
        self._files = [stream for stream in streams if stream is not None]
        self.stdin, self.stdout, stderr = (stream.fileno() for stream in self._files)
        self.buffers = {self.stdout: b"", stderr: b""}  #: descriptor -> the line so far
        self.began_s = time.time()
        self.started: GroupStarted | None = None
        self.reported_s = 0.0  #: when ``started`` came, by our wall clock
        self.running: dict[str, int] = {}  #: name -> process id
        self.exits: list[WorkerExit] = []  #: not yet given
        self.last_lines: deque[str] = deque(maxlen=2)  #: of its log

    def has_ended(self) -> bool:
        """Whether its ssh has."""
        return self.process.poll() is not None

    def close_stdin(self) -> None:
        """Makes its workers end."""
        self._files[0].close()

    def close(self) -> None:
        for stream in self._files:
            stream.close()

    def receive(self, fd: int, data: bytes) -> None:
        """Output came; no data: it has ended."""
        lines = (self.buffers[fd] + (data or b"\n")).split(b"\n")
        self.buffers[fd] = lines.pop()[-_LONGEST_LINE:]
        for line in lines:
            text = line.decode("utf-8", "replace").strip()
            report = from_line(text) if fd == self.stdout else None
            if isinstance(report, GroupStarted) and self.started is None:
                self.started, self.reported_s = report, time.time()
                self.running = dict(report.workers)
            elif isinstance(report, WorkerExit):
                if self.running.pop(report.worker_id, None) is not None:
                    self.exits.append(report)
            elif text:
                self._log(printable(text[:_LONGEST_LINE]))

    def _log(self, text: str) -> None:
        self.last_lines.append(text)
        level = _LOG_LEVEL.match(text)
        log.log(getattr(logging, level[1]) if level else logging.INFO, "%s: %s", self.name, text)


def _worker_name(host: SshHost, index: int) -> str:
    """The beginning of the names of a host's workers."""
    if len(host.name) <= _MOST_NAME:
        return host.name
    number = f"-{index}"
    return host.name[: _MOST_NAME - len(number)] + number


def _not_started(faults: Sequence[str], hosts: int) -> str:
    """Why a run can't begin."""
    if len(faults) == 1:
        return f"the run was not started: {faults[0]}"
    lines = [f"the run was not started: no workers on {len(faults)} of {plural(hosts, 'host')}:"]
    lines += faults[:_MOST_FAULTS]
    if len(faults) > _MOST_FAULTS:
        lines.append(f"and {len(faults) - _MOST_FAULTS} more")
    return "\n  ".join(lines)


def _is_own(address: str) -> bool:
    """Whether this host has the IP address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
