"""What can be known of the fast store without having it: nginx isn't on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import nginx


def test_where_it_is_not_installed_the_error_says_what_would_help(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nginx, "_PLACES", ())
    with pytest.raises(nginx.NginxError, match="apt-get install nginx"):
        nginx.start()


def test_one_that_does_not_come_up_says_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "nginx"
    fake.write_text('#!/bin/sh\necho "unknown directive" > "$4"\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(nginx.tempfile, "mkdtemp", lambda **_: str(_made(tmp_path / "place")))
    with pytest.raises(nginx.NginxError, match="unknown directive"):
        nginx.start()
    assert not (tmp_path / "place").exists()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
