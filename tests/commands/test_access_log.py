"""Files of access logs, and the scenarios that are made of them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ssbench.commands.replay.access_log import LogFiles, RequestLog, read_logs
from ssbench.commands.replay.formats import MAX_LINE
from ssbench.commands.replay.scenarios import LogScenario, scenario_of_log
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.scenario.scenario import Scenario
from ssbench.runner.stop import Stop
from tests.commands.test_log_formats import combined, s3, swift

LINE = swift("GET", "/v1/AUTH_secret/photos/me.jpg", sent=100)

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


def write(path: Path, *lines: str) -> str:
    data = "".join(f"{line}\n" for line in lines).encode("latin-1")
    path.write_bytes(COMPRESS.get(path.suffix, bytes)(data))
    return str(path)


def read(*paths: str, **more: str) -> LogFiles:
    return read_logs(paths, RequestLog(), **more)


@pytest.mark.parametrize("suffix", ["", *COMPRESS])
def test_plain_and_compressed_files(tmp_path: Path, suffix: str) -> None:
    path = Path(write(tmp_path / f"log{suffix}", LINE, "", f"{LINE}\r"))
    found = read(str(path))
    assert (found.lines, len(found.requests), found.not_understood) == (2, 2, 0)
    data = path.read_bytes()
    for damaged in (data[:-12], data[:20] + b"\xff" * 8 + data[28:]) if suffix else ():
        path.write_bytes(damaged)
        with pytest.raises(SsbenchError, match="is damaged, or cut off"):
            read(str(path))


def test_several_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.TextIOWrapper(io.BufferedReader(io.BytesIO(gzip.compress(LINE.encode()))))
    monkeypatch.setattr(sys, "stdin", data)
    found = read(write(tmp_path / "a", LINE), "-", write(tmp_path / "b", combined("GET", "/x")))
    assert (found.lines, len(found.requests)) == (3, 3)


def test_other_lines_are_counted_and_shown_masked(tmp_path: Path) -> None:
    secret = 'user "Frank" token 12345'
    path = write(tmp_path / "log", LINE, secret, *["x"] * 5, combined("GET", "/x", 404), "")
    found = read(path)
    assert (found.lines, found.not_understood, len(found.requests)) == (8, 6, 1)
    assert found.examples[0] == f'{path}, line 2: aaaa "Aaaaa" aaaaa 99999'
    assert len(found.examples) == 3
    assert found.left_out == {"failed with status 404": 1}


def test_a_line_of_any_length_takes_bounded_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "log", LINE, "x" * (3 * MAX_LINE + 5), LINE, "y" * (MAX_LINE - 1), LINE)
    found = read(path)
    assert (found.lines, found.not_understood, len(found.requests)) == (5, 2, 3)
    assert found.examples[1].startswith(f"{path}, line 4: aaa")


def test_reading_can_be_stopped_and_says_how_far_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "log", *[LINE] * 50_000)
    shown: list[str] = []
    read_logs([path], RequestLog(), show=shown.append)
    assert shown == [f"Reading {path}: 50,000 lines", ""]
    stop = Stop()
    stop("enough")
    with pytest.raises(KeyboardInterrupt):
        read_logs([path], RequestLog(), stop=stop)
    endless = write(tmp_path / "endless", LINE, "x" * (2 * MAX_LINE))
    with pytest.raises(KeyboardInterrupt):
        read_logs([endless], RequestLog(), stop=stop)


@pytest.mark.parametrize(
    ("begin", "form"),
    [(b"(\xb5/\xfd\x04\x00", "zstd"), (b'\x04"M\x18dp', "lz4"), (b"PK\x03\x04", "zip")],
)
def test_files_of_other_compressors_are_named(tmp_path: Path, begin: bytes, form: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(begin + b"\0" * 100)
    with pytest.raises(UsageError, match=f"compressed with {form}, which can't be read here: dec"):
        read(str(path))


def test_an_xz_file_does_not_say_how_much_memory_its_reader_takes(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "log.xz", LINE))
    data = bytearray(path.read_bytes())
    end = 12 + (data[12] + 1) * 4  # of the first block's header
    at = data.index(b"\x21\x01", 12, end) + 2  # the dictionary's size, of LZMA2
    data[at] = 39  # 3 GiB
    data[end - 4 : end] = zlib.crc32(data[12 : end - 4]).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(SsbenchError, match="Memory usage limit exceeded"):
        read(str(path))


def test_an_xz_file_may_have_several_streams_and_zeros_between_them(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "log.xz", LINE))
    one = path.read_bytes()
    path.write_bytes(one + bytes(1 << 17) + one + bytes(4))
    assert read(str(path)).lines == 2


# Scenarios --------------------------------------------------------------------------------


def made(tmp_path: Path, *lines: str, initial: int | None = None) -> LogScenario:
    log = read(write(tmp_path / "log", *lines)).requests
    return scenario_of_log("x", log, initial)


def keys(found: LogScenario) -> dict[str, object]:
    assert Scenario.from_json(found.text)
    values: dict[str, object] = json.loads(found.text)
    return values


def timed(line: str, second: int) -> str:
    return line.replace("22/Nov/2026/14/50/32", f"22/Nov/2026/14/50/{second:02}").replace(
        "1795359032.25", f"17953590{second:02}.25"
    )


def test_a_scenario_has_the_operations_sizes_and_rate_of_the_log(tmp_path: Path) -> None:
    lines = []
    for second in range(10, 20):
        for number in range(9):
            lines.append(swift("GET", f"/v1/a/c/{number}", sent=1000))
        lines.append(swift("PUT", f"/v1/a/c/new{second}", 201, received=1_000_000))
        lines = [*lines[:-10], *(timed(line, second) for line in lines[-10:])]
    found = made(tmp_path, *lines)
    values = keys(found)
    tiny, medium = values["sizes"]  # type: ignore[misc]
    assert (tiny["name"], tiny["operations"]) == ("tiny", {"read": 90})
    assert tiny["size"] == {"histogram": [[896, 1024, 90]]}
    assert (medium["name"], medium["operations"]) == ("medium", {"create": 10})
    assert values["initial_files"] == {"tiny": 90, "medium": 10}
    assert values["rate"] == pytest.approx(100 / 9, abs=0.001)
    assert (found.peak_per_s, found.seconds, found.exponent) == (10, 9, None)
    assert values["user_count"] == 16
    assert found.uploaded_bytes == pytest.approx(90 * 960 + 10 * 983_040, rel=0.1)
    assert keys(made(tmp_path, *lines, initial=1000))["initial_files"] == {
        "tiny": 900, "medium": 100,
    }  # fmt: skip


def test_a_scenario_that_deletes_has_enough_objects(tmp_path: Path) -> None:
    lines = [swift("DELETE", f"/v1/a/c/{number}", 204) for number in range(1000)]
    scenario = Scenario.from_json(made(tmp_path, *lines).text)
    (size,) = scenario.sizes
    assert scenario.rate == 1000
    assert size.initial_files > 60_000


def test_objects_that_no_store_takes_at_once_are_left_out_and_counted(tmp_path: Path) -> None:
    sizes = [100, (5 << 30) - 1, 5 << 30, 6 << 30]
    lines = [swift("GET", f"/v1/a/c/{size}", sent=size) for size in sizes]
    log = read(write(tmp_path / "log", *lines)).requests
    scenario = Scenario.from_json(scenario_of_log("x", log).text)
    assert max(each.size_max for each in scenario.sizes) < 5 << 30
    reason = "of objects of 5 GiB or more, which most stores take in parts only"
    assert log.left_out == {reason: 2}


def test_parts_and_sets_get_their_averages(tmp_path: Path) -> None:
    lines = [
        s3("REST.GET.OBJECT", "k", 206, sent=100, size=1000),
        s3("REST.GET.OBJECT", "k", 206, sent=300, size=1000),
        s3("REST.HEAD.OBJECT", "empty", size=0),
        s3("REST.POST.MULTI_OBJECT_DELETE"),
        *[s3("BATCH.DELETE.OBJECT", f"k{n}", 204) for n in range(7)],
        s3("REST.GET.BUCKET"),
    ]
    values = keys(made(tmp_path, *lines))
    assert values["range_bytes"] == 200
    assert values["bulk_count"] == 7
    (tiny,) = values["sizes"]  # type: ignore[misc]
    assert tiny["operations"] == {"head": 1, "list": 1, "range_read": 2, "bulk_delete": 1}


def test_a_log_without_objects_makes_a_scenario_too(tmp_path: Path) -> None:
    values = keys(made(tmp_path, swift("GET", "/v1/a/c")))
    assert values["initial_files"] == {"tiny": 100}


def test_a_well_measured_popularity_is_in_the_scenario(tmp_path: Path) -> None:
    lines = [
        swift("GET", f"/v1/a/c/{rank}", sent=100)
        for rank in range(60)
        for _ in range(3000 // (rank + 1))
    ]
    found = made(tmp_path, *lines)
    assert found.exponent == pytest.approx(1, abs=0.05)
    assert keys(found)["pick"] == {"zipf": round(found.exponent or 0, 3)}


GOLDEN = """\
{
  "name": "x",
  "sizes": [
    {
      "name": "tiny",
      "size": {
        "histogram": [
          [96, 112, 4],
          [1792, 2048, 1]
        ]
      },
      "operations": {
        "read": 3,
        "update": 1,
        "head": 1
      }
    },
    {
      "name": "small",
      "size": {
        "histogram": [
          [65536, 81920, 1]
        ]
      },
      "operations": {
        "create": 1
      }
    }
  ],
  "initial_files": {
    "tiny": 83,
    "small": 17
  },
  "rate": 6.0,
  "arrivals": "poisson",
  "run_seconds": 60,
  "user_count": 16
}
"""


def test_the_scenario_of_a_small_log(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        swift("GET", "/v1/a/c/x", sent=100),
        swift("GET", "/v1/a/c/x", sent=100),
        swift("GET", "/v1/a/c/y", sent=100),
        swift("PUT", "/v1/a/c/y", 201, received=2000),
        swift("HEAD", "/v1/a/c/x"),
        swift("PUT", "/v1/a/c/z", 201, received=80_000),
    )
    assert found.text == GOLDEN
