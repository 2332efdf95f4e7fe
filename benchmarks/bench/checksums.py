"""What the checksum of an upload costs, beside the SHA-256 of the same content, which a signed body
of S3 needs, and beside one call of the library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.bench.figure import Figure, at_most, not_run
from ssbench.core.content import SyntheticSource
from ssbench.core.errors import UsageError
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.verify import begin_of, sum_of

_SIZES = {"64 KiB": 65536, "8 MiB": 8 << 20}
_PIECE = 1 << 20
_SECONDS = 0.05  #: of a sample
_SHA, _CALL = "its SHA-256", "one call of awscrt"
#: By name, of either size: against SHA-256, which the processor may have instructions for, too.
_BOUND, _CALL_BOUNDS = at_most(0.5), {"64 KiB": at_most(3.0), "8 MiB": at_most(1.5)}


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    source = SyntheticSource(_PIECE)
    for words, size in _SIZES.items():
        whole = b"".join(source.pieces(b"x", 0, size))
        first, *others = source.pieces(b"x", 0, size)
        upload = Upload(size, first, partial(iter, others))
        for name in ("crc32c", "crc64nvme"):
            title = f"{name} of an upload of {words}"
            try:
                begin = begin_of(name)
            except UsageError as error:
                yield not_run(title, _SHA, _BOUND, str(error))
                continue
            sha = begin_of("sha256")
            samples = [
                [
                    _us(lambda: sum_of(begin, upload)),  # noqa: B023 # called at once
                    _us(lambda: sum_of(sha, upload)),  # noqa: B023
                    _us(lambda: begin().update(whole)),  # noqa: B023
                ]
                for _ in range(rounds)
            ]
            ours, theirs, call = zip(*samples, strict=True)
            yield Figure(title, "µs", ours, _SHA, theirs, _BOUND)
            yield Figure(title, "µs", ours, _CALL, call, _CALL_BOUNDS[words])


def _us(act: Callable[[], object]) -> float:
    """Microseconds of one call, of as many as fit into a sample."""
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < _SECONDS:
        act()
        count += 1
    return took / count * 1e6
