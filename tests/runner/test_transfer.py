"""What upload and download do with files before they send or compare them."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path

from ssbench.runner.stop import Stop
from ssbench.runner.transfer import compute_md5


def test_only_regular_files_are_read_for_their_md5(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    paths = [str(tmp_path / "file"), "/dev/zero", str(tmp_path), f"{tmp_path}/link", f"{tmp_path}/"]
    counted: list[tuple[int, int]] = []
    digests, _ = compute_md5(paths, 2, lambda done, total: counted.append((done, total)), Stop())
    assert digests == md5(b"content").digest() + bytes(4 * 16)
    assert counted[-1] == (5, 5)
