"""The parent's side of an embedded Swift: plain standard library, no gevent, no eventlet."""

from __future__ import annotations

import base64
import contextlib
import http.client
import importlib.util
import os
import secrets
import socket
import ssl
import subprocess  # nosec B404 # our own interpreter with our own module
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import ssbench
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.embedded import workdir
from ssbench.embedded.plan import ROLES, USERS, Plan, Sections

INSTALL_HINT = (
    "the embedded Swift isn't installed: in ssbench's checkout, pip install '.[embedded]'"
)

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0


class EmbeddedSwift:
    """A real Swift on loopback, from ``start`` (or ``with``) to ``stop``.

    It has the storage policies gold (the default) and silver; the users test:tester (an admin
    of its account), test:tester3 (no admin) and admin:admin; S3, static and dynamic large
    objects, bulk, server-side copy, temporary URLs. Nothing of it outlives this process.

    :param host: "127.0.0.1" or "::1".
    :param port: of the proxy; 0 for a free one.
    :param token_life_s: how long a token is good for.
    :param in_memory: objects live in the server's memory rather than in files.
    :param tls_cert, tls_key: paths of PEM files; with them the proxy speaks https.
    :param directory: where to make the data's directory; None for a place with room.
    :param log_path: the access log; None for one that goes with the rest.
    :param proxy_conf: options to add to, or change in, proxy-server.conf, by section.
    :param sleep: waits so many seconds between two looks whether it is up; what it raises ends
        the start.
    """

    #: The processes, and the roles that each of them plays.
    layout: Sequence[Sequence[str]] = (ROLES,)

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token_life_s: int = 86400,
        in_memory: bool = False,
        tls_cert: str | Path = "",
        tls_key: str | Path = "",
        directory: str | None = None,
        log_path: str | Path | None = None,
        proxy_conf: Sections | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._requested_port = port
        self._directory = directory
        self._log_path = log_path
        self._sleep = sleep
        self._options = {
            "host": host,
            "token_life_s": token_life_s,
            "in_memory": in_memory,
            "tls_cert": os.path.abspath(tls_cert) if tls_cert else "",
            "tls_key": os.path.abspath(tls_key) if tls_key else "",
            "proxy_conf": proxy_conf or {},
        }
        self._plan: Plan | None = None
        self._processes: dict[Sequence[str], subprocess.Popen[bytes]] = {}

    def __repr__(self) -> str:
        state = f"at {self.base_url}" if self._plan else "not started"
        return f"<EmbeddedSwift {state}>"

    def __enter__(self) -> EmbeddedSwift:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> EmbeddedSwift:
        """Start it and wait until it answers.

        :raises UsageError: where the extra isn't installed, or the port isn't free.
        :raises SsbenchError: where it doesn't start; the text has what it printed.
        """
        if not all(importlib.util.find_spec(name) for name in ("swift", "eventlet")):
            raise UsageError(INSTALL_HINT)
        with contextlib.ExitStack() as on_failure:
            sockets = bound_sockets(str(self._options["host"]), self._requested_port)
            on_failure.callback(self.stop)
            try:
                self._plan = self._make_plan(sockets)
                for roles in self.layout:
                    self._spawn(roles, sockets)
            finally:
                for each in sockets.values():
                    each.close()
            self._wait_until_ready()
            on_failure.pop_all()
        return self

    def stop(self) -> None:
        """End it and remove its directory. Once stopped, it can be started anew, empty."""
        for process in self._processes.values():
            assert process.stdin is not None  # nosec B101 # for the type checker
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # the child's sign to end
        for process in self._processes.values():
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if self._plan:
            workdir.remove(self._plan.top)
            self._plan = None

    @property
    def plan(self) -> Plan:
        """What it was started with. :raises SsbenchError: where it isn't started."""
        if self._plan is None:
            raise SsbenchError("the embedded Swift isn't started: call start(), or use with")
        return self._plan

    @property
    def port(self) -> int:
        """The proxy's port."""
        return self.plan.ports["proxy"]

    @property
    def base_url(self) -> str:
        scheme = "https" if self.plan.tls_cert else "http"
        host = f"[{self.plan.host}]" if ":" in self.plan.host else self.plan.host
        return f"{scheme}://{host}:{self.port}"

    @property
    def auth_url(self) -> str:
        """For v1 authentication with ``user`` and ``key``."""
        return f"{self.base_url}/auth/v1.0"

    @property
    def storage_url(self) -> str:
        """Of the account of ``user``."""
        return f"{self.base_url}/v1/AUTH_test"

    @property
    def user(self) -> str:
        return "test:tester"

    @property
    def key(self) -> str:
        return next(key for account, user, key, _ in USERS if (account, user) == ("test", "tester"))

    @property
    def pids(self) -> dict[str, int]:
        """Role -> the process that plays it."""
        return {role: p.pid for roles, p in self._processes.items() for role in roles}

    def is_running(self) -> bool:
        """Whether all its processes still are."""
        return bool(self._processes) and all(p.poll() is None for p in self._processes.values())

    def access_log(self) -> Path:
        """The proxy's log: METHOD PATH[?QUERY] STATUS TRANSACTION BYTES, a line a request.

        A request's line is there before its client sees the answer.
        """
        return Path(self.plan.access_log)

    def _make_plan(self, sockets: dict[str, socket.socket]) -> Plan:
        top = workdir.make_workdir(self._directory)
        log = Path(self._log_path).absolute() if self._log_path else top / "access.log"
        return Plan(
            top=str(top),
            ports={role: each.getsockname()[1] for role, each in sockets.items()},
            access_log=str(log),
            fernet_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            **self._options,  # type: ignore[arg-type]
        )

    def _spawn(self, roles: Sequence[str], sockets: dict[str, socket.socket]) -> None:
        """Start the process of these roles; the sockets go with it, the plan into its stdin."""
        descriptors = {role: sockets[role].fileno() for role in roles}
        words = [f"{role}={fd}" for role, fd in descriptors.items()]
        # eventlet warns of its own end with many words: -W ignore, and not for the user.
        command = [sys.executable, "-W", "ignore", "-m", "ssbench.embedded.server", *words]
        with open(self._child_output, "ab") as output:
            process = subprocess.Popen(  # nosec B603 # no shell, and nothing of a user's in it
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=tuple(descriptors.values()),
                cwd=self.plan.top,
                env=child_environment(),
                # Ctrl-C in the terminal is the parent's: it still cleans up with our help.
                start_new_session=True,
            )
        self._processes[roles] = process
        assert process.stdin is not None  # nosec B101 # for the type checker
        with contextlib.suppress(BrokenPipeError):  # it died at once: _wait_until_ready tells
            process.stdin.write(self.plan.to_json().encode() + b"\n")
            process.stdin.flush()

    @property
    def _child_output(self) -> Path:
        return Path(self.plan.top) / "output"

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            if not self.is_running():
                raise SsbenchError(
                    f"the embedded Swift ended at its start: {self._last_output_line()}"
                )
            if time.monotonic() > deadline:
                raise SsbenchError(
                    f"the embedded Swift gave no answer for {START_TIMEOUT_S:.0f} s: "
                    f"{self._last_output_line()}"
                )
            self._sleep(0.02)

    def _is_ready(self) -> bool:
        """Whether /info gives 200, and with it that all roles listen."""
        others = [self.plan.ports[role] for role in ROLES if role != "proxy"]
        try:
            for port in others:
                socket.create_connection((self.plan.host, port), timeout=1).close()
            connection = self._connection()
            with contextlib.closing(connection):
                connection.request("GET", "/info")
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def _connection(self) -> http.client.HTTPConnection:
        if not self.plan.tls_cert:
            return http.client.HTTPConnection(self.plan.host, self.port, timeout=5)
        # It asks a child of ours whether it is up; who trusts the certificate is of no matter.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(self.plan.host, self.port, timeout=5, context=context)

    def _last_output_line(self) -> str:
        """The last line that the child printed: of a traceback, the one that says it."""
        try:
            lines = self._child_output.read_text(errors="replace").split("\n")
        except OSError:
            lines = []
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def bound_sockets(host: str, proxy_port: int) -> dict[str, socket.socket]:
    """A bound socket for each role: the ports are ours from here on.

    :raises UsageError: where the proxy's port, or the host, can't be had.
    """
    with contextlib.ExitStack() as opened:
        sockets = {
            role: opened.enter_context(bound_socket(host, proxy_port if role == "proxy" else 0))
            for role in ROLES
        }
        opened.pop_all()
    return sockets


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket on that port, or on a free one for 0; it doesn't listen yet.

    :raises UsageError: where it can't be had.
    """
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as e:
        made.close()
        raise UsageError(f"the embedded Swift can't listen on {host} port {port}: {e}") from e
    return made


#: What variables of other clusters' credentials begin with; this one has its own.
_CREDENTIALS = ("ST_", "OS_", "SSBENCH_")


def child_environment() -> dict[str, str]:
    """Ours without anybody's credentials, with this very ssbench importable, installed or not."""
    home = str(Path(ssbench.__file__).resolve().parent.parent)
    path = os.environ.get("PYTHONPATH")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_CREDENTIALS)}
    return {**kept, "PYTHONPATH": f"{home}{os.pathsep}{path}" if path else home}
