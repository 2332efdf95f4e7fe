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


@pytest.mark.parametrize(("page_cache", "line"), [(True, "sendfile on;"), (False, "sendfile off;")])
def test_what_the_page_cache_is_to_serve_is_on_a_disk_and_removed(
    page_cache: bool, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    fake = tmp_path / "nginx"
    fake.write_text(f'#!/bin/sh\n{{ echo "$2"; cat "$6"; }} > {tmp_path}/seen\n: > "$4"\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(nginx, "_ON_DISK", disk)
    with pytest.raises(nginx.NginxError):
        nginx.start(page_cache=page_cache)
    place, *config = (tmp_path / "seen").read_text().splitlines()
    assert (Path(place).parent == disk) is page_cache
    assert line in map(str.strip, config)
    assert not Path(place).exists()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
