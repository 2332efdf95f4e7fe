"""The words of a run. Their numbers are on the wire and on disk, so they may not change."""

from __future__ import annotations

from ssbench.core.model import ErrorKind, Phase
from ssbench.core.operations import OPERATIONS


def test_enum_numbers_in_stat_files_are_stable() -> None:
    assert {operation.name: int(operation) for operation in OPERATIONS.values()} == {
        "CREATE": 0, "READ": 1, "UPDATE": 2, "DELETE": 3, "ENSURE": 4, "REMOVE": 5,
        "HEAD": 6, "POST": 7, "LIST": 8, "COPY": 9, "RANGE_READ": 10, "BULK_DELETE": 11,
        "LIST_ALL": 12, "LIST_RANDOM": 13, "PUT_TAGS": 14, "GET_TAGS": 15,
        "CREATE_IF_ABSENT": 16, "UPDATE_IF_MATCH": 17, "READ_VERSION": 18, "DELETE_VERSION": 19,
    }  # fmt: skip
    assert [phase.name for phase in Phase] == ["IDLE", "POPULATE", "RUN", "CLEANUP"]
    assert [int(kind) for kind in ErrorKind] == list(range(len(ErrorKind)))
    assert [kind.name for kind in ErrorKind][:5] == [
        "NONE", "STATUS", "CONNECT", "CONNECT_TIMEOUT", "NETWORK_TIMEOUT",
    ]  # fmt: skip
