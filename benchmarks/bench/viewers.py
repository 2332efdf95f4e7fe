"""A terminal and a web page on which a run is watched."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
import time
import urllib.request
from threading import Thread

_LINES, _COLUMNS = 50, 160
_TIMEOUT_S = 60.0
_WAITS = b"until Ctrl-C"  #: what it says then
_TOKEN = re.compile(rb"\?token=([\w-]{22})")  #: in the page's address, which the terminal shows
_KEPT = 64  #: bytes, of which a text that arrives in two pieces has fewer
_LEAST_BYTES = 200  #: that each of them gets in a run


class Viewers:
    """Reads what a master writes to its terminal and sends to an open page; ends it with SIGINT
    when it says that ``--web`` waits for that."""

    def __init__(self) -> None:
        self._end, self.terminal = pty.openpty()  #: the master's stderr
        size = struct.pack("HHHH", _LINES, _COLUMNS, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{sock.getsockname()[1]}"  #: for --web
        self._bytes = {"terminal": 0, "page": 0}
        self._token = ""
        self._threads: list[Thread] = []

    def watch(self, master: subprocess.Popen[bytes]) -> None:
        """Begin: the master has been started, and has the terminal."""
        os.close(self.terminal)
        self._threads = [
            Thread(target=self._read_terminal, args=(master,), daemon=True),
            Thread(target=self._read_page, args=(master,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def lacking(self) -> str:
        """What showed too little of the run, after its end; "" if nothing did."""
        for thread in self._threads:
            thread.join(_TIMEOUT_S)
        os.close(self._end)
        return ", ".join(name for name, size in self._bytes.items() if size < _LEAST_BYTES)

    def _read_terminal(self, master: subprocess.Popen[bytes]) -> None:
        newest = b""
        with contextlib.suppress(OSError):  # EIO: the master has ended
            while data := os.read(self._end, 65536):
                self._bytes["terminal"] += len(data)
                newest = newest[-_KEPT:] + data
                if not self._token and (found := _TOKEN.search(newest)):
                    self._token = found[1].decode()
                if _WAITS in newest:
                    newest = b""
                    master.send_signal(signal.SIGINT)

    def _read_page(self, master: subprocess.Popen[bytes]) -> None:
        while master.poll() is None:
            try:
                url = f"http://{self.address}/events?token={self._token}"
                with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as stream:  # nosec B310
                    for line in stream:
                        self._bytes["page"] += len(line)
            except OSError:
                time.sleep(0.05)  # it does not listen yet, or has not said where
