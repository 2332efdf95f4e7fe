"""wrk, the reference in C: one thread on the client's core; the figures are its own counters.

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

#: Only ``done``: a function per request or response would slow wrk down.
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
    """Results of a run."""

    requests: int
    seconds: float
    cpu_s: float

    @property
    def us_a_request(self) -> float:
        """CPU time per request in µs."""
        return self.cpu_s / self.requests * 1e6

    @property
    def per_s(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def is_here() -> bool:
    """Whether wrk is installed."""
    return shutil.which("wrk") is not None


def run(url: str, *, connections: int, seconds: int, put_size: int | None = None) -> Wrk:
    """GET the URL repeatedly, or PUT objects of so many bytes.

    :raises CommandError: it failed, or a request did.
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
    """Parse the line that our script prints.

    :raises CommandError: there is no such line, or it counts errors.
    """
    found = re.search(r"^SAYS (\d+) (\d+) \d+ (\d+)$", out, re.MULTILINE)
    if not found:
        raise child.CommandError(f"wrk printed no results: {out}")
    requests, microseconds, errors = map(int, found.groups())
    if errors or not requests:
        raise child.CommandError(f"wrk had {errors} errors in {requests} requests: {out}")
    return Wrk(requests, microseconds / 1e6, cpu_s)
