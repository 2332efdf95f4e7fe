"""A real sshd (Debian's openssh-server) on a loopback port, with keys and configuration of its own.

``ssh`` is the command for ``--ssh-command``: it reads nothing of the user's. ``a``, ``b``, ``c``
and ``bench-...`` are this host; ``closed`` has a port that nothing listens on, ``stranger`` a host
key that is not known, ``refused`` a key that it does not accept.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

from tests.servers.programs import path_of

NAMES = ("a", "b", "c", "bench-*")


class Sshd:
    """A context manager.

    :param place: an empty folder.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Sshd:
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]
        for name in ("host", "user", "other"):
            subprocess.run([*make, self.place / name], check=True)
        (self.place / "authorized_keys").write_text((self.place / "user.pub").read_text())
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        (self.place / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{port}\n"
            f"HostKey {self.place}/host\n"
            f"AuthorizedKeysFile {self.place}/authorized_keys\n"
            f"PidFile {self.place}/pid\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nMaxStartups 100\n"
        )
        (self.place / "known_hosts").write_text(
            f"known {(self.place / 'host.pub').read_text().strip()}\n"
        )
        self._write_client_config(port)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where root's sshd drops its rights
        program = path_of("sshd")  # which needs its whole path
        with (self.place / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, "-D", "-e", "-f", self.place / "sshd_config"], stderr=log
            )
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return self
            except ConnectionRefusedError:
                assert self._process.poll() is None, (self.place / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def _write_client_config(self, port: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            closed = probe.getsockname()[1]
        common = (
            f"Hostname 127.0.0.1\nPort {port}\nIdentityFile {self.place}/user\nIdentitiesOnly yes\n"
            f"UserKnownHostsFile {self.place}/known_hosts\nGlobalKnownHostsFile /dev/null\n"
            "HostKeyAlias known\nStrictHostKeyChecking yes\nLogLevel ERROR\n"
        )
        (self.place / "config").write_text(
            f"Host closed\nPort {closed}\n"
            "Host stranger\nHostKeyAlias stranger\n"
            f"Host {' '.join(NAMES)} closed stranger\n{common}"
            f"Host refused\n{common.replace('/user', '/other')}"
        )

    def sessions(self) -> dict[str, psutil.Process]:
        """Processes that were started over ssh, by the last word of their command line."""
        assert self._process is not None
        found = {}
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with suppress(psutil.Error):
                words = " ".join(process.cmdline()).split()
                found[words[-1] if words else ""] = process
        return found

    @property
    def ssh(self) -> str:
        """The client, with its configuration."""
        return f"ssh -F {self.place / 'config'}"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
