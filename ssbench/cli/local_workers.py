"""Workers that the master starts on its own host (``--workers``), and that end with it.

Each gets the key over a pipe, never by the command line or the environment. The master keeps the
pipe's other end open: when it is gone, however it ended, the pipe closes and the worker ends.
"""

from __future__ import annotations

import os
import subprocess  # nosec B404 # our own interpreter with our own options
import sys

from ssbench.cli.ownfiles import new_file
from ssbench.wire import MasterWire
from ssbench.wirekey import Key

#: Where one finds a master on the same host that listens to all interfaces.
_EVERYWHERE = "0.0.0.0"  # nosec B104 # nothing is bound here
_LOOPBACK_OF = {_EVERYWHERE: "127.0.0.1", "::": "::1"}
_GRACE_S = 5.0


class LocalWorkers:
    """A context manager around the processes.

    :param concurrency: users of each.
    :param key: None where the wire has none.
    """

    def __init__(
        self,
        count: int,
        *,
        concurrency: int,
        wire: MasterWire,
        key: Key | None,
        retries: int,
        verbose: bool = False,
    ) -> None:
        self.logs: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pipes: list[int] = []
        self._hello = key.to_text() if key else "\n"
        host = _LOOPBACK_OF.get(wire.ip, wire.ip)
        ports = wire.ports
        self._options = [
            "--zmq-host", host,
            "--zmq-work-port", str(ports.work),
            "--zmq-results-port", str(ports.results),
            "--zmq-control-port", str(ports.control),
            "--concurrency", str(concurrency),
            "--retries", str(retries),
            *(["--verbose"] if verbose else []),
        ]  # fmt: skip
        self._count = count

    def __enter__(self) -> LocalWorkers:
        try:
            for index in range(self._count):
                self._start(index)
        except BaseException:
            self._end()
            raise
        return self

    def _start(self, index: int) -> None:
        log_fd, log_path = new_file(f"ssbench-worker-local-{index}-", ".log")
        read_fd, write_fd = os.pipe()
        os.set_inheritable(read_fd, True)
        name = f"local-{index}-{os.getpid()}"
        command = [
            sys.executable, "-m", "ssbench.cli.worker",
            "--parent-pipe", str(read_fd), *self._options, name,
        ]  # fmt: skip
        try:
            process = subprocess.Popen(  # nosec B603 # no shell, and nothing of a user's in it
                command,
                stdin=subprocess.DEVNULL,
                stdout=log_fd,
                stderr=log_fd,
                pass_fds=(read_fd,),
                env=_environment(),
                # Ctrl-C on the terminal is for the master: it lets its workers finish.
                start_new_session=True,
            )
        finally:
            os.close(read_fd)
            os.close(log_fd)
        self._pipes.append(write_fd)
        self._processes.append(process)
        self.logs.append(log_path)
        os.write(write_fd, self._hello.encode("ascii"))

    def ended(self) -> list[tuple[str, int]]:
        """Log and exit status of those that have ended."""
        return [
            (path, process.returncode)
            for path, process in zip(self.logs, self._processes, strict=True)
            if process.poll() is not None
        ]

    def _end(self) -> None:
        for fd in self._pipes:
            os.close(fd)
        self._pipes.clear()
        for process in self._processes:
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __exit__(self, *exc: object) -> None:
        self._end()


def _environment() -> dict[str, str]:
    """Ours, without credentials, which a worker never needs; our modules can be found in it."""
    secret = ("ST_", "OS_", "SSBENCH_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(secret)}
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{here}{os.pathsep}{path}" if path else here
    return environment
