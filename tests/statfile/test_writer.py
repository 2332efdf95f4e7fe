from __future__ import annotations

import errno
import gzip
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import msgpack
import pytest

from ssbench.core.columns import RESULT_SCHEMAS
from ssbench.core.errors import StatFileError
from ssbench.core.model import Phase
from ssbench.statfile import StatFileWriter, read
from ssbench.statfile import writer as writer_module
from ssbench.statfile.format import BlockBuilder
from tests.fakes.full_disk import fill_disk
from tests.statfile.samples import (
    FOOTER,
    HEADER,
    HOST,
    PHASE,
    batch,
    busy_rows,
    packed,
    write_run,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.stat.gz"


def test_a_failed_start_leaves_what_was_there(path: Path) -> None:
    StatFileWriter.create(path).close()
    assert not path.exists()
    older = write_run(path, [HEADER])
    StatFileWriter.create(path, overwrite=True).close()
    assert path.read_bytes() == older


@pytest.mark.parametrize("older", [False, True])
def test_held_blocks_are_not_written(path: Path, older: bool) -> None:
    before = write_run(path, [HEADER]) if older else b""
    with StatFileWriter.create(path, overwrite=True, hold=True) as writer:
        writer.write(HEADER)
        writer.write(PHASE)
        for now_s in (1.0, 2.1, 3.2):
            writer.tick(now_s)
        assert writer.held
        assert path.read_bytes() == before
        assert writer.blocks == 0
    assert path.exists() is older
    if older:
        assert path.read_bytes() == before


def test_released_blocks_are_on_disk(path: Path) -> None:
    with StatFileWriter.create(path, hold=True) as writer:
        writer.write(HEADER)
        writer.write(PHASE)
        writer.release()
        assert not writer.held
        with read(path) as run:
            assert list(run) == [HEADER]
        writer.release()
        writer.write(FOOTER)
    with read(path) as run:
        assert list(run) == [HEADER, PHASE, FOOTER]


def test_a_full_disk_at_the_release_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch)
    with StatFileWriter.create(path, hold=True) as writer:
        writer.write(HEADER)
        for _ in ("the first to change the store", "another at the same time"):
            with pytest.raises(StatFileError, match="nothing was kept"):
                writer.release()
    assert not path.exists()


def test_zcat_and_pythons_gzip_read_the_file(path: Path) -> None:
    write_run(path)
    by_python = gzip.decompress(path.read_bytes())
    by_zcat = subprocess.run(["zcat", path], capture_output=True, check=True).stdout
    assert by_python == by_zcat
    # The header stands twice, on purpose, and the schema in each block with results.
    codes = [item[0] for item in msgpack.Unpacker(BytesIO(by_zcat))]
    assert codes == [0, 0, 1, 2, 8, 9, 4, 8, 9, 10, 11, 5]


def test_a_block_is_written_once_a_second(path: Path) -> None:
    with StatFileWriter.create(path) as writer:
        writer.tick(100.0)
        writer.write(PHASE)
        writer.tick(100.9)
        assert writer.blocks == 0
        writer.tick(101.0)
        assert writer.blocks == 1
        writer.tick(102.0)
        assert writer.blocks == 1, "there was nothing to write"


def test_a_block_is_written_when_it_is_full(path: Path) -> None:
    batch_bytes = packed(busy_rows(1000))
    with StatFileWriter.create(path) as writer:
        while not writer.blocks:
            writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], batch_bytes)
        assert writer.bytes_written < 1.1 * writer_module.BLOCK_BYTES


def test_a_slow_run_is_compressed_better(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small: list[bool] = []

    class Watched(BlockBuilder):
        def __init__(self, **given: bool) -> None:
            small.append(given["small"])
            super().__init__(**given)

    monkeypatch.setattr(writer_module, "BlockBuilder", Watched)
    batch_bytes = packed(busy_rows(1000))
    with StatFileWriter.create(path) as writer:
        for second, batches in enumerate((0, 1, 40, 40, 1, 0)):
            for _ in range(batches):
                writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], batch_bytes)
            writer.tick(float(second))
    # One short second, two of a full block and a rest each, one short second.
    assert small == [False, True, True, False, False, False, True]


@pytest.mark.parametrize("size", [1, 8, 64, 256])
def test_an_operation_takes_at_most_40_bytes(path: Path, size: int) -> None:
    rows = busy_rows(20_000)
    with StatFileWriter.create(path) as writer:
        # A second's worth at 2,000 operations a second.
        for start in range(0, len(rows), size):
            writer.append_results(
                Phase.RUN, 0, RESULT_SCHEMAS[0], packed(rows[start : start + size])
            )
            writer.tick(start / 2000)
    assert path.stat().st_size <= 40 * len(rows)


def test_a_full_disk_at_the_start_leaves_no_empty_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch)
    writer = StatFileWriter.create(path)
    with pytest.raises(StatFileError, match="No space left on device; nothing was kept"):
        writer.write(HEADER)
    assert not path.exists()
    writer.close()
    with pytest.raises(StatFileError, match=r"/dev/full: can't be written: .* nothing was kept"):
        StatFileWriter.create("/dev/full").write(HEADER)


def test_a_disk_that_is_full_at_the_close_too_is_reported_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network file systems may report an error at the close."""
    writer = StatFileWriter.create(path)
    writer.write(HEADER)
    fill_disk(monkeypatch)
    close = os.close

    def full(file: int) -> None:
        close(file)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "close", full)
    with pytest.raises(StatFileError, match="No space left on device; the first"):
        writer.write(FOOTER)
    writer.close()


@pytest.fixture
def full_disk() -> Iterator[int]:
    """A limit on the size of files stands in for a full disk: both end in OSError."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = 8000
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    yield size
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_is_reported_and_written_blocks_stay(path: Path, full_disk: int) -> None:
    rows = busy_rows(100)
    writer = StatFileWriter.create(path)
    writer.write(HEADER)
    fault, written = "", 0
    while not fault:
        try:
            writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], packed(rows))
            writer.flush()
            written += 1
        except StatFileError as error:
            fault = str(error)
    assert fault.startswith(f"{path}: can't be written: File too large;")
    assert f"the first {path.stat().st_size} bytes" in fault
    with pytest.raises(StatFileError, match="nothing more is written"):
        writer.write(HOST)
    writer.close()
    with read(path) as run:
        assert list(run) == [HEADER, *[batch(rows)] * written]
        assert run.damage == ["there is no footer: the run was cut off, or is still going on"]


def test_a_killed_run_leaves_the_flushed_blocks(path: Path) -> None:
    code = (
        "import os, sys; from tests.statfile.samples import *\n"
        "w = StatFileWriter.create(sys.argv[1]); w.write(HEADER); w.write(PHASE); w.flush()\n"
        "w.write(HOST); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=False)
    with read(path) as run:
        assert list(run) == [HEADER, PHASE]


def test_a_batch_beyond_the_readers_limits_is_rejected(path: Path) -> None:
    with StatFileWriter.create(path) as writer, pytest.raises(StatFileError, match="batch"):
        writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], bytes(17 << 20))
