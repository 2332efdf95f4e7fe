"""The keys of a scenario that the stores go by."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from ssbench.core import units
from ssbench.core.model import LargeObject, LargeRead, ObjectLock
from ssbench.core.option import LOAD, WHAT
from ssbench.core.scenario import values
from ssbench.core.scenario.checks import Key, overriding


class StorageKeys(Struct, frozen=True, kw_only=True):
    """Sent to the workers as they are: a base of Scenario and of StorageSettings."""

    # fmt: off
    container_base: Annotated[str, Key(values.container_base,
        "The start of the containers' names: ``ssbench_000061``; with a policy, "
        f"``ssbench_000061_gold``. No slashes; at most {values.MAX_CONTAINER_NAME} bytes "
        "including number and policy.",
        option=overriding("--container-base", WHAT,
            "start of the containers' names", metavar="BASE"))] = "ssbench"
    container_count: Annotated[int, Key(units.whole(1, values.MAX_CONTAINERS),
        "The number of containers over which the objects are spread.",
        option=overriding("-c --container-count", WHAT,
            "number of containers", metavar="COUNT"))] = 100
    block_size: Annotated[int, Key(units.size_from(1, values.MAX_BLOCK),
        "Objects are sent and received in pieces of this size.",
        option=overriding("-b --block-size", WHAT,
            "bytes to send at a time (no effect below 1 MiB) [default: 65536]"))] = 65536
    large_object: Annotated[LargeObject | None, Key(None,
        "How objects above a size are stored in parts: see `In a large object`_.",
        "none: each object is stored as one")] = None
    large_read: Annotated[LargeRead | None, Key(None,
        "How READs get objects above a size in ranges: see `In a large read`_.",
        "none: each object is read by one request")] = None
    versioning: Annotated[bool, Key(values.flag,
        "Whether the containers keep versions of replaced and deleted objects: see "
        "`Versions and locks`_.")] = False
    object_lock: Annotated[ObjectLock | None, Key(None,
        "For how long uploads of the run can't be deleted: see `In an object lock`_.",
        "none")] = None
    #: One of values.CHECKSUMS.
    checksum: Annotated[str, Key(values.one_of(values.CHECKSUMS, "a checksum"),
        "The checksum that uploads send, and that a READ compares if the store returns it: see "
        "`Checksums`_.", of_header=values.any_text,
        option=overriding("--checksum", LOAD, "checksum of uploads and reads",
            type=str, choices=values.CHECKSUMS))] = "none"
    checksum_in: Annotated[str, Key(values.one_of(values.CHECKSUM_PLACES, "a place"),
        "Whether an upload has its checksum before the content, or behind it, as a trailer.",
        of_header=values.any_text,
        option=overriding("--checksum-in", LOAD, "where uploads have their checksum",
            type=str, choices=values.CHECKSUM_PLACES))] = "header"
    keep_alive: Annotated[bool, Key(values.flag,
        "Whether a connection serves several requests: see `Requests`_.")] = True
    expect_continue: Annotated[bool, Key(values.flag,
        "Whether uploads ask before they send the object: see `Requests`_.")] = False
    # fmt: on
