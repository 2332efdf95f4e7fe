"""--resume-cleanup: what a stat file can tell, what is asked, what is said, and the status."""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgpack
import pytest

from ssbench import statfile
from ssbench.cli.master import main
from ssbench.commands.cleanup import delete_orphans
from ssbench.core.columns import RESULT_SCHEMAS
from ssbench.core.errors import ExitStatus, StatFileError, UsageError
from ssbench.core.model import RESULT_NUMBERS, Phase, Result
from ssbench.core.naming import RunNaming, is_run_id
from ssbench.core.operations import CREATE, READ
from ssbench.core.records import MASTER, HostRecord, PhaseRecord
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import StorageSettings
from ssbench.runner.orphans import orphans_of, read_orphans
from ssbench.statfile import StatFileWriter
from ssbench.statfile.format import (
    MAX_BLOCK,
    BlockBuilder,
    encode_record,
    encode_results,
    encode_schema,
)
from ssbench.storage.base import OpenUpload
from tests.commands.test_cleanup import Command
from tests.fakes.memory_storage import MemoryStore
from tests.fakes.terminal import must_be_line
from tests.report import runs
from tests.statfile.samples import old_result, write_old
from tests.statfile.test_blocks import resealed

RUN = "5e1f5e1f00"
SCENARIO = {**runs.SCENARIO, "container_count": 2, "initial_files": {"tiny": 5, "small": 5},
            "policy": None, "container_base": "b"}  # fmt: skip
NAMING = RunNaming(
    StorageSettings(
        run_id=RUN, sizes=Scenario.from_json(json.dumps(SCENARIO)).sizes, container_base="b",
        container_count=2,
    )
)  # fmt: skip


def stat_file(path: Path, created: int = 4, **header: Any) -> Path:
    """A file of a run that created so many objects and was cut off."""
    with StatFileWriter.create(path) as writer:
        writer.write(runs.header(**{"run_id": RUN, "scenario": SCENARIO, **header}))
        writer.write(PhaseRecord(Phase.RUN, runs.STARTED_AT, 4))
        writer.write(HostRecord(MASTER, 5.0, {}))
        if created:
            rows = [runs.result(n + 1, CREATE, object=5 + n, size_class=0) for n in range(created)]
            rows.append(runs.result(created + 1, READ, object=2, size_class=0))  # initial
            writer.write(runs.batch(rows))
    return path


def resumed(path: Path, store: MemoryStore, **options: Any) -> Command:
    """--resume-cleanup."""
    use_existing = options.pop("use_existing", False)
    said: list[str] = []
    orphans = read_orphans(str(path), said.append)
    done = Command(
        lambda cleaner: delete_orphans(cleaner, orphans, use_existing=use_existing),
        store, **options,
    )  # fmt: skip
    done.err = "".join(f"{line}\n" for line in said) + done.err
    return done


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return stat_file(tmp_path / "x.stat.gz")


def left_in(store: MemoryStore) -> list[str]:
    return sorted(name for c in store.containers.values() for name in c.objects)


def test_open_uploads_are_counted_and_those_of_initial_objects_belong_to_a_time(
    tmp_path: Path,
) -> None:
    in_parts = {**SCENARIO, "large_object": {"above": 0, "segment": 1}}
    path = stat_file(tmp_path / "y", created=0, scenario=in_parts)
    store = MemoryStore()
    for container in NAMING.containers:
        store.add(container, marker=True)
    created, elsewhere = NAMING.object(0, 5), NAMING.object(0, 6)
    assert (NAMING.container(0, 5), NAMING.container(0, 6)) == ("b_000001", "b_000000")
    initial = [
        OpenUpload("tiny_000001", str(seconds), runs.STARTED_AT + seconds)
        for seconds in (-4, 1, 64, 66)
    ]
    others = [
        OpenUpload("tiny_000001", "untimed"),
        OpenUpload("tiny_0123456789_000005", "of another run", runs.STARTED_AT + 1),
        OpenUpload("precious", "unlike", runs.STARTED_AT + 1),
        OpenUpload(elsewhere, "in another container", runs.STARTED_AT + 1),
    ]
    before = [OpenUpload(created, "1"), *initial, *others]
    store.containers["b_000001"].uploads = [*before]
    dry = resumed(path, store, dry_run=True)
    assert dry.out.startswith(f"Would delete 0 objects and 3 open uploads of run {RUN}, in 2")
    assert "the run was cut off" in dry.err
    assert store.containers["b_000001"].uploads == before
    done = resumed(path, store)
    assert done.status is ExitStatus.OK
    assert done.out.startswith(f"Deleted 0 objects and 3 open uploads of run {RUN} in ")
    assert store.containers["b_000001"].uploads == [initial[0], initial[3], *others]


def test_a_crafted_file_deletes_no_foreign_objects(tmp_path: Path) -> None:
    """Its names fit what lies there; no run of ssbench uploaded that."""
    scenario = {**SCENARIO, "container_base": "prod",
                "sizes": [{"name": "backup", "size_min": 1, "size_max": 1}],
                "initial_files": {"backup": 1}}  # fmt: skip
    store = MemoryStore()
    for run_id in ("2024", RUN):
        store.add("prod_000000", *(f"backup_{run_id}_{number:06d}" for number in range(9)))
    store.add("prod_000001", *(f"backup_{RUN}_{number:06d}" for number in range(9)), marker=True)
    store.add("prod_000001", f"backup_{RUN}_000009", marker=True, run="aaaaaaaaaa")
    before = left_in(store)
    with pytest.raises(UsageError, match="has no ID"):
        resumed(stat_file(tmp_path / "a", scenario=scenario, run_id="2024"), store)
    path = stat_file(tmp_path / "b", scenario=scenario)
    for use_existing in (False, True):
        done = resumed(path, store, yes=True, use_existing=use_existing)
        assert done.status is ExitStatus.FAILED
        assert f"Deleted 0 objects of run {RUN}" in done.out
        assert "named as the run's, without its header (X-Object-Meta-Ssbench-Run)" in done.err
        assert ("Left alone: prod_000000: no mark of ssbench" in done.err) is not use_existing
    assert left_in(store) == before
    assert store.count("delete_object") == 0


# What a stat file can't tell ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"driver": "noop"}, "so it left nothing"),
        ({"run_id": ""}, "has no ID"),
        ({"run_id": "a_b"}, "has no ID"),
        ({"run_id": "2024"}, "has no ID"),
        ({"run_id": "5E1F5E1F00"}, "has no ID"),
        ({"run_id": "5e1f5e1f001"}, "has no ID"),
        ({"run_id": "5e1f5e1f0\n"}, "has no ID"),
        ({"names": {"kind": "numbered"}}, 'cannot be recognized; .* with "bench delete"'),
        ({"scenario": {"name": "x"}}, "the scenario in its header can't be used: .*/x: "),
    ],
)
def test_a_header_without_scenario(tmp_path: Path, header: dict[str, Any], why: str) -> None:
    path = stat_file(tmp_path / "x", **header)
    with pytest.raises(UsageError, match=why):
        read_orphans(str(path), print)


def test_a_file_without_its_header(path: Path) -> None:
    data = path.read_bytes()
    starts = [at for at in range(len(data)) if data.startswith(b"\x1f\x8b\x08", at)]
    path.write_bytes(data[starts[2] :])  # it stands twice
    with pytest.raises(UsageError, match=r"header is lost.*cleanup-containers -b"):
        read_orphans(str(path), print)


def test_a_file_of_0_3_9(tmp_path: Path) -> None:
    path = tmp_path / "old"
    write_old(path, [old_result()])
    with pytest.raises(UsageError, match=r"carry no run ID.*cleanup-containers -b"):
        read_orphans(str(path), print)


def test_a_file_that_is_still_being_written(tmp_path: Path) -> None:
    with StatFileWriter.create(tmp_path / "x") as writer:
        writer.write(runs.header(run_id=RUN))
        with pytest.raises(UsageError, match="still in progress"):
            read_orphans(str(tmp_path / "x"), print)
    read_orphans(str(tmp_path / "x"), print)


def _records() -> bytes:
    """The records of a file, without the checksums of its blocks."""
    with TemporaryDirectory() as place:
        return gzip.decompress(stat_file(Path(place, "x"), created=40).read_bytes())


def record_seeds() -> list[bytes]:
    """What ``resumable`` is fuzzed from."""
    return [_records()]


def resumable(data: bytes) -> None:
    """Invariant: objects that some run created, each with a name that gives its number back, or
    an error of one line."""
    try:
        with statfile.read(io.BytesIO(gzip.compress(data, 1))) as reader:
            left = orphans_of(reader)
    except (UsageError, StatFileError) as error:
        must_be_line(error)
        return
    assert is_run_id(left.run_id)
    for size_class, number in left.unlisted():
        name = left.naming.object(size_class, number)
        assert f"_{left.run_id}_" in name
        assert left.naming.created_number(size_class, name) == number
        assert left.is_container(left.container(size_class, number))


# Files that are made to take for ever -------------------------------------------------------

#: What a file of 1.2 MB may cost: CPU seconds (the machine may be slow) and bytes in memory.
CPU_MAX = 1000  #: times what two million steps of an empty loop take
MEMORY_MAX = 450 << 20
MEASURED = """
import io, resource, sys
from ssbench.runner.orphans import read_orphans
from ssbench.core.columns import RESULT_SCHEMAS
from ssbench.core.errors import SsbenchError

def cpu_s():
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime

began_s = cpu_s()
for _ in range(2_000_000):
    pass
before_s = cpu_s()
said = []
try:
    left = read_orphans(sys.argv[1], said.append)
    sum(1 for _ in left.unlisted())
except SsbenchError as error:
    said.append(str(error))
print((cpu_s() - before_s) / (before_s - began_s))
# ru_maxrss would be that of the process that forked this one, if that was larger.
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
print(*said)
"""


def _header_record() -> bytes:
    return encode_record(runs.header(run_id=RUN, scenario=SCENARIO))


def _batch(numbers: Any, rows: int) -> bytes:
    """A record of results; ``numbers`` is the packed column of their objects."""
    columns: list[Any] = [0] * RESULT_NUMBERS
    columns[Result._fields.index("operation")] = int(CREATE)
    columns[Result._fields.index("object")] = numbers
    packed = [rows, *columns, ["plain", b"", b"\n" * rows], []]
    schema = encode_schema(0, RESULT_SCHEMAS[0])
    return schema + encode_results(Phase.RUN, 0, 0, msgpack.packb(packed))


def _members(*payloads: bytes) -> bytes:
    """Plain gzip: the header, then the payloads over and over, up to 1.2 MB."""
    parts = [gzip.compress(_header_record())]
    packed = [gzip.compress(payload) for payload in payloads]
    return b"".join(parts + packed * (1_200_000 // sum(map(len, packed)) + 1))


def _blocks(data: bytes, *, damaged: bool) -> bytes:
    """Blocks: the header, then the same data over and over, up to 1.2 MB."""
    parts, builder = [], BlockBuilder()
    builder.add(_header_record())
    parts.append(builder.finish(0))
    builder = BlockBuilder()
    builder.add(data)
    member = builder.finish(1)
    for number in range(1, 1_200_000 // len(member) + 1):
        again = resealed(member, 17, struct.pack("<I", number))
        parts.append(again[:-8] + b"spoilt"[:4] + again[-4:] if damaged else again)
    return b"".join(parts)


def _sparse() -> Iterator[bytes]:
    """Numbers of objects a thousand apart, so that each touches a page of marks of its own."""
    apart = array("I", range(0, 4096 << 10, 1 << 10)).tobytes()
    for base in range(1, 1 << 32, 4096 << 10):
        yield _batch([base, "I", apart], 4096)


CRAFTED: dict[str, Callable[[], bytes]] = {
    "numbers": lambda: _members(bytes(32 << 20)),
    "empty members": lambda: _members(*[b""] * 50),
    "rows that are all alike": lambda: _members(_batch(12, 65536) * 500),
    "objects of all numbers": lambda: _members(b"".join(_sparse())),
    "lists": lambda: _members((b"\xdc\x3f\xff" + bytes(16383)) * 2000),
    "blocks of numbers": lambda: _blocks(bytes(MAX_BLOCK), damaged=False),
    "blocks that are damaged": lambda: _blocks(bytes(MAX_BLOCK), damaged=True),
    "headers of blocks": lambda: _blocks(b"", damaged=True),
}


@pytest.mark.parametrize("kind", CRAFTED)
def test_memory_is_bounded_by_the_size_of_the_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.stat.gz"
    path.write_bytes(CRAFTED[kind]())
    assert path.stat().st_size < 3_000_000
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True,
    )  # fmt: skip
    cpu, peak, *said = done.stdout.splitlines()
    assert float(cpu) < CPU_MAX
    assert int(peak) < MEMORY_MAX
    assert ("far more than a run writes" in "".join(said)) is (kind != "headers of blocks")


def test_a_whole_run_is_within_the_bounds(tmp_path: Path) -> None:
    """As results come that differ in nothing but their number: no run's are so much alike."""
    path = tmp_path / "x.stat.gz"
    with StatFileWriter.create(path) as writer:
        writer.write(runs.header(run_id=RUN, scenario=SCENARIO))
        for first in range(5, 100_000, 10_000):
            rows = [
                runs.result(number, CREATE, object=number, size_class=0)
                for number in range(first, first + 10_000)
            ]
            writer.write(runs.batch(rows))
    said: list[str] = []
    left = read_orphans(str(path), said.append)
    assert sum(1 for _ in left.unlisted()) == 100_000
    assert (left.ignored_results, len(said)) == (0, 1)


# Options ----------------------------------------------------------------------------------

LOGIN = ["-A", "http://127.0.0.1:9/auth", "-U", "u", "-K", "k"]


def test_the_file_is_read_before_the_confirmation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cleanup-containers", "--resume-cleanup", "/no/such/file", *LOGIN]) == 2
    assert "/no/such/file: can't be read" in capsys.readouterr().err
