"""The access log that Swift's proxy-logging writes, received as a syslog server would."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import TracebackType

from ssbench.embedded.plan import PIPELINE


class ProxyLog:
    """A context manager; lines are appended to ``path`` as they arrive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._receive, daemon=True)

    @property
    def proxy_conf(self) -> dict[str, dict[str, str]]:
        """For SwiftOptions: both places of proxy-logging in Swift's default pipeline."""
        pipeline = PIPELINE.replace("healthcheck", "healthcheck proxy-logging")
        return {
            "pipeline:main": {
                "pipeline": pipeline.replace(" proxy-server", " proxy-logging proxy-server")
            },
            "filter:proxy-logging": {
                "use": "egg:swift#proxy_logging",
                "access_log_level": "INFO",
                "access_log_udp_host": "127.0.0.1",
                "access_log_udp_port": str(self._socket.getsockname()[1]),
            },
        }

    def __enter__(self) -> ProxyLog:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        with self.path.open("ab", buffering=0) as file:
            while data := self._socket.recv(1 << 16):
                file.write(data.rstrip(b"\0\n") + b"\n")
