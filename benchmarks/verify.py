"""What --verify costs: MB/s of a core for the comparison, for MD5, and for both.

    python benchmarks/verify.py [--runs 5]

The reference is MD5 alone, by hashlib in the same process. The last rows are READs through the
driver from a server on this host's loopback, without and with --verify.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ssbench.core.bodycheck import BodyCheck, Expected
from ssbench.core.content import SyntheticSource
from ssbench.core.model import Job, SizeClass
from ssbench.core.operations import READ
from ssbench.core.scenario.values import crud_profile
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.http.connection import BUFFER_SIZE
from ssbench.storage.swift.driver import SwiftStorage

SIZE = 4_000_000
NAME = b"large_000000"
READS = 25
CONTENT = SyntheticSource(BUFFER_SIZE)
BODY = b"".join(CONTENT.pieces(NAME, 0, SIZE))
PARTS = [memoryview(BODY)[at : at + BUFFER_SIZE] for at in range(0, SIZE, BUFFER_SIZE)]


def compare() -> None:
    check = BodyCheck(CONTENT, Expected(NAME, 0, SIZE, range(SIZE + 1)))
    for part in PARTS:
        check.add(part)
    if check.finding({}) is not None:
        raise RuntimeError("the right body is found wrong")


def hash_it() -> None:
    digest = md5(usedforsecurity=False)
    for part in PARTS:
        digest.update(part)


def both() -> None:
    compare()
    hash_it()


def reading(port: int, *, verify: bool) -> Callable[[], None]:
    """One READ of SIZE bytes by the driver."""
    settings = StorageSettings(
        store={"urls": (f"http://127.0.0.1:{port}/v1/A",)},
        credentials=(Credentials(0, None, {"token": "tk"}),),
        sizes=(SizeClass("large", SIZE, SIZE, crud_profile([0, 1, 0, 0]), 1),),
        verify=verify,
    )
    driver = SwiftStorage(settings)
    job = Job(1, READ, 0, 0, 0, SIZE)
    return lambda: driver.actions[READ](job, 0) and None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    etag = md5(BODY, usedforsecurity=False).hexdigest()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(SIZE))
        self.send_header("Etag", self.etag)
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *args: object) -> None:
        pass


def rate(act: Callable[[], None]) -> float:
    """MB/s of doing it READS times."""
    began = time.perf_counter()
    for _ in range(READS):
        act()
    return READS * SIZE / 1e6 / (time.perf_counter() - began)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each row [default: 5]")
    runs = parser.parse_args().runs
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = {
        "MD5 alone": hash_it,
        "comparison alone": compare,
        "both": both,
        "READ": reading(server.server_port, verify=False),
        "READ, --verify": reading(server.server_port, verify=True),
    }
    # The rows in turn, so that all see the same moods of the machine.
    rates: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(runs):
        for name, act in rows.items():
            rates[name].append(rate(act))
    reference = statistics.median(rates["MD5 alone"])
    print(f"{'':20}{'MB/s':>10}{'ratio':>10}")
    for name, found in rates.items():
        median = statistics.median(found)
        print(f"{name:20}{median:10.0f}{median / reference:10.2f}")


if __name__ == "__main__":
    main()
