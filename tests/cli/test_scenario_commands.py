"""make-scenario: what is wrong with its output is told before a container is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssbench.cli.master import main


@pytest.mark.parametrize(
    ("name", "why"), [("x" * 300, "File name too long"), ("there", "it exists; name a new file")]
)
def test_an_output_that_cannot_be_written_is_a_usage_error(
    tmp_path: Path, name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").touch()
    words = ["make-scenario", "--from-container", "c", "--output", str(tmp_path / name)]
    assert main([*words, "--storage", "file", "--path", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ssbench-master: --output ")
    assert error.endswith(f"{why}\n")
