"""A store that does anything with an upload but take it."""

from __future__ import annotations

import pytest

from ssbench.core.model import ErrorKind
from tests.e2e.commands import Commands
from tests.e2e.faults.hostile import (
    MEMORY_MAX_MB,
    SILENT,
    TOO_LONG,
    Fault,
    failures,
    options_for,
    survives,
    watch,
)
from tests.e2e.faults.matrix import Row
from tests.fakes.hostile_swift import HostileSwift, of_the_run
from tests.fakes.server_behaviours import (
    OK,
    dripping,
    flooding,
    half_close,
    reading,
    reset,
    saying,
    stall,
)

K = ErrorKind
#: More than the buffers on the way take, so that the server decides what becomes of it.
SIZE = 6_000_000
LARGE = {"sizes": [{"name": "tiny", "size_min": SIZE, "size_max": SIZE}],
         "initial_files": {"tiny": 1}, "crud_profile": [1, 0, 0, 0]}  # fmt: skip
FULL = b"HTTP/1.1 413 No\r\nContent-Length: 4\r\nConnection: %b\r\n\r\nfull"

FAULTS: dict[str, dict[str, Fault | None]] = {
    "uploads that nobody reads": {
        "stall": Fault(stall, K.NETWORK_TIMEOUT, SILENT),
        "well": None,
        "stops": Fault(reading(100_000, then=stall), K.NETWORK_TIMEOUT, SILENT),
        "well too": None,
    },
    "an answer before the end of an upload": {
        "kept": Fault(
            saying(FULL % b"keep-alive", then=stall), K.STATUS, "PUT returned 413", 413),
        "closed": Fault(saying(FULL % b"close"), K.STATUS, "PUT returned 413", 413),
        "reset": Fault(saying(FULL % b"close", then=reset), K.STATUS, "PUT returned 413", 413),
        "well": None,
    },
    "interim answers and headers without end during an upload": {
        "interim": Fault(
            flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99), K.PROTOCOL, "interim"),
        "headers": Fault(flooding(OK, b"X: y\r\n" * 999), K.PROTOCOL, TOO_LONG),
        "drops": Fault(dripping(OK), K.NETWORK_TIMEOUT, "silent for|headers unfinished"),
        "well": None,
    },
    "an answer to an upload without end": {
        "body": Fault(
            reading(SIZE - 99_999, then=flooding(OK + b"\r\n", b"x" * 65536)),
            K.OVERLONG, "a body of more", 200),
        "well": None,
        "drip": Fault(
            reading(SIZE - 99_999, then=dripping(OK + b"Content-Length: 99\r\n\r\n")),
            K.NETWORK_TIMEOUT, SILENT, 200),
    },
}  # fmt: skip


@pytest.mark.fault("store: {fault}")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_upload(fault: str, commands: Commands, row: Row) -> None:
    faults = FAULTS[fault]
    behaviours = {name: found and found.behaviour for name, found in faults.items()}
    with HostileSwift(behaviours, of_the_run("PUT")) as swift:
        ended = survives(commands, row, swift, faults, operation_count=12, user_count=2, **LARGE)
        names = [n for there in swift.containers.values() for n in there.objects]
        # What may have been uploaded was deleted, too.
        assert names == ["tiny_000000"]
    done, errors, _ = ended.counted("CREATE")
    assert (done + errors, errors) == (12, swift.strikes_in_all)


@pytest.mark.fault("store: {fault} in the middle of an upload, on a kept connection")
@pytest.mark.parametrize("fault", ["reset", "half closed"])
def test_a_reset_upload_is_not_resent_as_an_idle_connection(
    fault: str, commands: Commands, row: Row
) -> None:
    cut, words = {
        "reset": (reading(100_000, then=reset), "reset by peer|broken pipe"),
        "half closed": (half_close, "closed unanswered"),
    }[fault]
    behaviours = {"first": cut, "second": cut, "well": None}
    with HostileSwift(behaviours, of_the_run("PUT")) as swift:
        path = commands.scenario(operation_count=8, user_count=1, **LARGE)
        ended, peaks = watch(commands.start_run("-f", path, *options_for(swift), workers=1))
        ended.fine(1)
        assert swift.struck == {"first": 3, "second": 3}
    account = row.accounted(ended.stats)
    assert (account.done, account.failed) == (2, 6)
    assert failures(ended, {"cut": Fault(cut, K.DISCONNECTED, words)}).total() == 6
    assert max(peaks) < MEMORY_MAX_MB
    row.saw(f"6 disconnected, one for each; {ended.took_s:.0f} s")
