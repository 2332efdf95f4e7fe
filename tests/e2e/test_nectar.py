"""Command lines of nectar's benchmark as they stand, against a real Keystone and a real Swift."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import MASTER, ROOT, Commands, clean_environment, free_ports, login
from tests.servers.keystone import KeystoneSwift

LINES = ROOT / "tests/corpus/nectar"
#: Of 10,000,000 and 1,000,000 objects, and two hours.
SCALE = "0.000005"
WRITE = ["completion_time_unix_nano", "object_name", "transaction_id", "status"]
HEADS = {
    "put": [*WRITE, "elapsed_nanoseconds"],
    "get": [*WRITE, "headers_elapsed_nanoseconds", "elapsed_nanoseconds"],
    "delete": [*WRITE, "elapsed_nanoseconds"],
    "mixed": [WRITE[0], "method", *WRITE[1:], "elapsed_nanoseconds"],
}
#: In a shell that runs the lines: ``nectar`` is our command, pauses take no time.
PRELUDE = """
set -o pipefail
nectar() { "$PYTHON" "$MASTER" nectar --scale="$SCALE" $OPTIONS "$@" || echo "FAILED $?"; }
sleep() { :; }
"""


def run_lines(
    script: str, place: Path, options: Sequence[str], environment: dict[str, str]
) -> None:
    """Run them in a folder of their own; standard output goes where they send it."""
    subprocess.run(
        ["bash", "-c", PRELUDE + script],
        cwd=place,
        env={
            **clean_environment(),
            "TMPDIR": str(place),
            "PYTHON": sys.executable,
            "MASTER": str(MASTER),
            "SCALE": SCALE,
            "OPTIONS": " ".join(options),
            **environment,
        },
        check=True,
        timeout=400,
        capture_output=True,
    )


def own_options(*more: str) -> list[str]:
    """Free ports, a worker and others, each as one word; ours come before those of the line."""
    words = [*free_ports(), "--workers", "1", *more]
    return ["=".join(pair) for pair in zip(words[::2], words[1::2], strict=True)]


@pytest.mark.parametrize(("series", "objects"), [("4KB", 50), ("1MB", 5)])
def test_the_lines_of_a_series_run_as_they_stand(
    tmp_path: Path, keystone: KeystoneSwift, series: str, objects: int
) -> None:
    """The mixed one, and of the two turns the first: the lines of the second have other names."""
    lines = (LINES / f"{series}.sh").read_text().splitlines()
    assert sum(line.startswith("nectar ") for line in lines) == 7
    second = [line for line in lines if "-2- " in line and "mixed" not in line]
    as_first = {re.sub(r"2(-|\.csv)", r"1\1", line) for line in second}
    assert len(as_first) == 3
    lines = [line for line in lines if line not in second]
    assert as_first < {*lines}
    address = urlsplit(keystone.auth_url).netloc
    run_lines("\n".join(lines), tmp_path, own_options("--containers", "10"), {"KEYSTONE": address})
    for path in sorted(tmp_path.glob("big-test-*")):
        text = path.read_text()
        assert "FAILED" not in text, text
        assert "Traceback" not in text, text
    said = {path.name: path.read_text() for path in tmp_path.glob("big-test-*")}
    kind = {"4KB": "kb", "1MB": "mb"}[series]
    for method, unit in (("put", "PUT"), ("get", "GET"), ("delete", "DELETE")):
        text = said[f"big-test-ec-{kind}-{method}-1-"]
        assert "total time, " in text
        assert f" {unit}s per second." in text
        head, *rows = csv.reader(
            (tmp_path / f"bench{series}{method}1.csv").read_text().splitlines()
        )
        assert head == HEADS[method]
        assert len(rows) == objects * (3 if method == "get" else 1)
        assert {row[1].split("/")[0].rstrip("0123456789") for row in rows} == {
            f"bench-ec-{kind}-1-"
        }
        assert all(row[3].startswith("20") for row in rows)
    assert " requests per second." in said[f"big-test-ec-{kind}-mixed-1-"]
    head, *rows = csv.reader((tmp_path / f"bench{series}mixed1.csv").read_text().splitlines())
    assert head == HEADS["mixed"]
    # A second may be too short for an upload of 1 MiB, and so for all that follows it.
    assert {"PUT"} <= {row[1] for row in rows} <= {"PUT", "GET", "HEAD", "POST", "DELETE"}


def test_variables_stand_in_for_options(tmp_path: Path, embedded_swift: EmbeddedSwift) -> None:
    script = """
    nectar bench-put -containers 2 -count 1000 -maxsize 200 -size 100 -csvot over.csv vars x- >out
    nectar -C 1 bench-delete -containers=2 -count=1000 vars/x- >>out
    """
    variables = {
        "AUTH_URL": embedded_swift.auth_url, "AUTH_USER": embedded_swift.user,
        "AUTH_KEY": embedded_swift.key, "CONCURRENCY": "3", "SCALE": "0.01",
    }  # fmt: skip
    run_lines(script, tmp_path, own_options(), variables)
    said = (tmp_path / "out").read_text()
    assert "Bench-PUT of 10 objects, in 2 containers, at 3 concurrency..." in said
    assert "Bench-DELETE of 10 objects, in 2 containers, at 1 concurrency..." in said
    assert "Deleted 2 emptied containers." in said
    rows = [*csv.reader((tmp_path / "over.csv").read_text().splitlines())]
    assert rows[0] == ["time_unix_nano", "count_since_last_time"]
    assert [row[1] for row in rows[1:]] == ["0", "10"]


def test_an_error_ends_the_run_unless_it_is_told_to_continue(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    words = ["-C", 4, *login(embedded_swift)]
    own = ["--retries=0", *own_options()]
    ended = commands.master("nectar", *own, *words, "bench-get", "-count", 300, "none").wait()
    assert "stopped early, as told: an operation failed" in ended.fine(1).err
    ended = commands.master(
        "nectar", *own, "-continue-on-error", *words, "bench-get", "-count", 20, "none"
    ).wait()
    assert "20 of 20 GETs failed" in ended.fine(1).err
