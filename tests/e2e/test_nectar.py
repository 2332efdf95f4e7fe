"""nectar's options and variables, against a real Swift; test_keystone has whole lines of it."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import MASTER, Commands, clean_environment, free_ports, login

#: In a shell that runs lines: ``nectar`` is our command.
PRELUDE = """
nectar() { "$PYTHON" "$MASTER" nectar --scale="$SCALE" $OPTIONS "$@" || echo "FAILED $?"; }
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
    assert "stopped at the error limit: an operation failed" in ended.fine(1).err
    ended = commands.master(
        "nectar", *own, "-continue-on-error", *words, "bench-get", "-count", 20, "none"
    ).wait()
    assert "20 of 20 GETs failed" in ended.fine(1).err
