"""The progress characters: one for each operation of a run, by its kind and latency."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ssbench.core.operations import FIRST_BYTE, OPERATIONS

COLUMNS = 78  #: progress characters in a line
#: Latencies from which the next glyph is shown.
_BOUNDS_NS = (1_000_000_000, 3_000_000_000, 10_000_000_000)
_FAILED, _UNKNOWN = "X", "?"
TITLE = "Benchmark Run:\n"
#: What ssbench has always printed; a DELETE shows as CREATE and UPDATE do.
LEGEND = f"""\
{TITLE}\
  X    work job raised an exception
  .  <  1s first-byte-latency
  o  <  3s first-byte-latency
  O  < 10s first-byte-latency
  * >= 10s first-byte-latency
  _  <  1s last-byte-latency  (CREATE or UPDATE)
  |  <  3s last-byte-latency  (CREATE or UPDATE)
  ^  < 10s last-byte-latency  (CREATE or UPDATE)
  @ >= 10s last-byte-latency  (CREATE or UPDATE)
"""
_FAST = bytes(
    ord(OPERATIONS[code].progress[0]) if code in OPERATIONS else ord(_UNKNOWN)
    for code in range(256)
)


def progress_chars(columns: Sequence[Sequence[int]]) -> str:
    """One character per result, from columns operation, error, first_byte_ns, last_byte_ns."""
    operations, errors, first_bytes, last_bytes = columns
    # All fine and below a second, as nearly always: the operation alone tells the glyph. No
    # first byte is later than its last byte.
    if not any(errors) and max(last_bytes, default=0) < _BOUNDS_NS[0]:
        try:
            codes = bytes(operations)
        except ValueError:
            codes = b""  # numbers of no operation
        if len(codes) == len(operations):
            return codes.translate(_FAST).decode("ascii")
    return "".join(map(_progress_char, operations, errors, first_bytes, last_bytes))


def _progress_char(operation: int, error: int, first_byte_ns: int, last_byte_ns: int) -> str:
    if error:
        return _FAILED
    row = OPERATIONS.get(operation)
    if row is None:
        return _UNKNOWN
    by_first_byte = row.progress == FIRST_BYTE and first_byte_ns >= 0
    latency_ns = first_byte_ns if by_first_byte else last_byte_ns
    return row.progress[bisect_right(_BOUNDS_NS, latency_ns)]
