"""The parent's side of an embedded Swift: standard library only, no gevent, no eventlet."""

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
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from msgspec.structs import replace

from ssbench.core.errors import SsbenchError, UsageError
from ssbench.embedded.plan import ROLES, USERS, Plan, SwiftOptions, make_workdir, remove_workdir
from ssbench.host.files import open_file
from ssbench.host.process import child_environment

INSTALL_HINT = (
    "the embedded Swift isn't installed: in ssbench's checkout, pip install '.[embedded]'"
)

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0


class EmbeddedSwift:
    """A real Swift on loopback, from ``start`` (or ``with``) to ``stop``.

    It has the storage policies gold (the default) and silver; the users test:tester (an admin
    of its account), test:tester3 (no admin) and admin:admin; S3, static and dynamic large
    objects, bulk, server-side copy, temporary URLs. It ends with this process.

    :param sleep: waits this many seconds between two checks during ``start``; its exceptions end
        the start.
    """

    #: The processes, and the roles of each; the last of them listens.
    layout: Sequence[Sequence[str]] = (ROLES,)

    def __init__(
        self,
        options: SwiftOptions = SwiftOptions(),  # noqa: B008 # immutable
        *,
        sleep: Callable[[float], None] = time.sleep,
        hidden: Collection[str] = (),
    ) -> None:
        """:param hidden: environment variables that its processes must not see."""
        self._options = options
        self._sleep = sleep
        self._hidden = hidden
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
        """Start it and wait until it responds.

        :raises UsageError: the extra isn't installed, the port isn't free, or a PEM file can't be
            read.
        :raises SsbenchError: it doesn't start; the message has the last line of its output.
        """
        if not all(importlib.util.find_spec(name) for name in ("swift", "eventlet")):
            raise UsageError(INSTALL_HINT)
        for path in (self._options.tls_cert, self._options.tls_key):
            if path:  # the child's error would not name the file
                open_file(path).close()
        with contextlib.ExitStack() as on_failure:
            sockets = bound_sockets(self._options.host, self._options.port)
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
        """End it and remove its directory. It can be started again, empty."""
        for process in self._processes.values():
            assert process.stdin is not None  # nosec B101 # for the type checker
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # the child ends with its stdin
        for process in self._processes.values():
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if self._plan:
            remove_workdir(self._plan.top)
            self._plan = None

    @property
    def plan(self) -> Plan:
        """Its ports, paths and options.

        :raises SsbenchError: it isn't started.
        """
        if self._plan is None:
            raise SsbenchError("the embedded Swift isn't started: call start(), or use with")
        return self._plan

    @property
    def port(self) -> int:
        return self.plan.ports["proxy"]

    @property
    def base_url(self) -> str:
        options = self.plan.options
        scheme = "https" if options.tls_cert else "http"
        host = f"[{options.host}]" if ":" in options.host else options.host
        return f"{scheme}://{host}:{self.port}"

    @property
    def auth_url(self) -> str:
        """For v1 authentication by ``user`` and ``key``."""
        return f"{self.base_url}/auth/v1.0"

    @property
    def storage_url(self) -> str:
        """The storage URL of the account of ``user``."""
        return f"{self.base_url}/v1/AUTH_test"

    @property
    def user(self) -> str:
        return "test:tester"

    @property
    def key(self) -> str:
        return next(key for account, user, key, _ in USERS if (account, user) == ("test", "tester"))

    @property
    def pids(self) -> dict[str, int]:
        """Role -> process id."""
        return {role: p.pid for roles, p in self._processes.items() for role in roles}

    def is_running(self) -> bool:
        return bool(self._processes) and all(p.poll() is None for p in self._processes.values())

    def access_log(self) -> Path:
        """The proxy's access log: METHOD PATH[?QUERY] STATUS TRANSACTION BYTES per request.

        A line is written before the client sees the response.
        """
        return Path(self.plan.access_log)

    def _make_plan(self, sockets: dict[str, socket.socket]) -> Plan:
        options = self._options
        top = make_workdir(options.directory)
        return Plan(
            options=replace(  # the child runs in another directory
                options,
                tls_cert=os.path.abspath(options.tls_cert) if options.tls_cert else "",
                tls_key=os.path.abspath(options.tls_key) if options.tls_key else "",
            ),
            top=str(top),
            ports={role: each.getsockname()[1] for role, each in sockets.items()},
            access_log=os.path.abspath(options.log_path or top / "access.log"),
            fernet_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        )

    def _spawn(self, roles: Sequence[str], sockets: dict[str, socket.socket]) -> None:
        """Start the process of these roles; it inherits the sockets, and gets the plan by stdin."""
        descriptors = {role: sockets[role].fileno() for role in roles}
        words = [f"{role}={fd}" for role, fd in descriptors.items()]
        # -W ignore: eventlet warns at length that it is deprecated.
        command = [sys.executable, "-W", "ignore", "-m", "ssbench.embedded.server", *words]
        with open(self._child_output, "ab") as output:
            process = subprocess.Popen(  # nosec B603 # no shell, no user input
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=tuple(descriptors.values()),
                cwd=self.plan.top,
                env=child_environment(self._hidden),
                # Ctrl-C in the terminal must reach only the parent, which then ends the child.
                start_new_session=True,
            )
        self._processes[roles] = process
        assert process.stdin is not None  # nosec B101 # for the type checker
        with contextlib.suppress(BrokenPipeError):  # it died: _wait_until_ready reports it
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
                    f"the embedded Swift ended during its start: {self._last_output_line()}"
                )
            if time.monotonic() > deadline:
                raise SsbenchError(
                    f"the embedded Swift did not respond for {START_TIMEOUT_S:.0f} s: "
                    f"{self._last_output_line()}"
                )
            self._sleep(0.02)

    def _is_ready(self) -> bool:
        """Whether all processes listen and /info returns 200."""
        others = [self.plan.ports[roles[-1]] for roles in self.layout if roles[-1] != "proxy"]
        try:
            for port in others:
                socket.create_connection((self.plan.options.host, port), timeout=1).close()
            connection = self._connection()
            with contextlib.closing(connection):
                connection.request("GET", "/info")
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def _connection(self) -> http.client.HTTPConnection:
        if not self.plan.options.tls_cert:
            return http.client.HTTPConnection(self.plan.options.host, self.port, timeout=5)
        # This checks only that our child responds, so its certificate needn't be verified.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(
            self.plan.options.host, self.port, timeout=5, context=context
        )

    def _last_output_line(self) -> str:
        """The last line of the child's output; in a traceback, the line with the exception."""
        try:
            lines = self._child_output.read_text(errors="replace").split("\n")
        except OSError:
            lines = []
        return next(
            (line.strip() for line in reversed(lines) if line.strip()),
            f"no output; is there space in {self.plan.top} (TMPDIR)?",
        )


def bound_sockets(host: str, proxy_port: int) -> dict[str, socket.socket]:
    """A bound socket for each role, which reserves its port.

    :raises UsageError: the host or the proxy's port can't be used.
    """
    with contextlib.ExitStack() as opened:
        sockets = {
            role: opened.enter_context(bound_socket(host, proxy_port if role == "proxy" else 0))
            for role in ROLES
        }
        opened.pop_all()
    return sockets


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket bound to the port (0: any free one), not listening yet.

    :raises UsageError: the host or port can't be used.
    """
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as e:
        made.close()
        raise UsageError(f"the embedded Swift can't listen on {host} port {port}: {e}") from e
    return made
