"""wrk, the reference in C: one thread on the client's core, its figures by its own counters.

Debian: ``apt-get install wrk``.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench import child
from benchmarks.bench.cores import CLIENT

NOT_HERE = "not run: apt-get install wrk"

#: ``done`` alone: a function for each request or answer would cost wrk time for each.
_SAYS = """
done = function(summary)
  local e = summary.errors
  io.write(string.format("SAYS %d %d %d %d\\n", summary.requests, summary.duration, summary.bytes,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""
_PUTS = """
wrk.method = "PUT"
wrk.body = string.rep("w", {size})
"""


class Wrk(NamedTuple):
    """What it did."""

    requests: int
    seconds: float
    cpu_s: float

    @property
    def us_a_request(self) -> float:
        """Processor time, µs."""
        return self.cpu_s / self.requests * 1e6

    @property
    def per_s(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def is_here() -> bool:
    """Whether it is installed."""
    return shutil.which("wrk") is not None


def run(url: str, *, connections: int, seconds: int, put_size: int | None = None) -> Wrk:
    """GET the URL again and again, or PUT objects of so many bytes there.

    :raises CommandError: it failed, or an answer wasn't a success.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".lua", prefix="ssbench-") as script:
        script.write(_SAYS if put_size is None else _SAYS + _PUTS.format(size=put_size))
        script.flush()
        command = [
            "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s",
            "-s", Path(script.name), url,
        ]  # fmt: skip
        ended = child.run(command, CLIENT, seconds + 30)
    return parse(ended.out, ended.cpu_s)


def parse(out: str, cpu_s: float) -> Wrk:
    """From what our script has it print.

    :raises CommandError: it isn't there, or tells of errors.
    """
    found = re.search(r"^SAYS (\d+) (\d+) \d+ (\d+)$", out, re.MULTILINE)
    if not found:
        raise child.CommandError(f"wrk doesn't say what it did: {out}")
    requests, microseconds, errors = map(int, found.groups())
    if errors or not requests:
        raise child.CommandError(f"wrk had {errors} errors in {requests} requests: {out}")
    return Wrk(requests, microseconds / 1e6, cpu_s)
