"""Keys, and the files that hold them: which are taken, and what is said of the others."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus, UsageError
from ssbench.transport.key import CurveKey, HostKey, channel_key


def test_an_existing_key_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("precious")
    with pytest.raises(UsageError, match="never overwritten"):
        CurveKey.generate().save(str(path))
    assert path.read_text() == "precious"
    with pytest.raises(UsageError, match="can't be written"):
        CurveKey.generate().save(str(tmp_path / "none" / "key"))


def test_a_key_readable_by_others_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "key"
    CurveKey.generate().save(str(path))
    for mode in (0o640, 0o604, 0o660, 0o620, 0o601, 0o777):
        path.chmod(mode)
        with pytest.raises(UsageError, match=f"chmod 600 {path}"):
            CurveKey.load(str(path))
    path.chmod(0o400)
    CurveKey.load(str(path))


def test_a_file_without_a_key_is_rejected_and_not_shown(tmp_path: Path) -> None:
    """Nor is more read of it than a key needs."""
    path, key = tmp_path / "key", CurveKey.generate()
    path.touch(0o600)
    for content in (
        b"", b"secret", b"\xff\xfe" * 300, b"ssbench-key-2 " + b"a" * 40, bytes(5000),
        b"ssbench-key-1 " + b" ".join([b"x" * 40] * 3), b"ssbench-key-1" + b" y" * 4,
        key.to_text().ljust(1025).encode(),
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            CurveKey.load(str(path))
        text = str(caught.value)
        assert text == f"{path}: not a key of ssbench; `ssbench-master make-key FILE` writes one"
    path.write_text(key.to_text().ljust(1024))
    assert CurveKey.load(str(path)) == key


@pytest.mark.parametrize("word", ['"' * 40, "é" * 40, "x" * 40, "0" * 40])
def test_a_damaged_key_is_rejected(word: str) -> None:
    words = CurveKey.generate().to_text().split()
    for index in range(1, 5):
        damaged = [*words[:index], word, *words[index + 1 :]]
        with pytest.raises(UsageError, match="not a key"):
            CurveKey.from_text(" ".join(damaged), "file")


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def foreign_file(path: Path) -> None:
    CurveKey.generate().save(str(path))
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(path, 65534, -1)


def link(path: Path) -> None:
    target = path.with_name("target")
    CurveKey.generate().save(str(target))
    path.symlink_to(target)


NO_KEY_FILES = {
    "nothing": (lambda path: None, "can't be read: No such file"),
    "folder": (Path.mkdir, "has to be a regular file, and is a folder"),
    "FIFO": (lambda path: os.mkfifo(path, 0o600), "has to be a regular file, and is a FIFO"),
    "socket": (socket_at, "has to be a regular file, and is a socket"),
    "symlink": (link, "is a symbolic link; name the file itself"),
    "loop": (lambda path: path.symlink_to(path), "is a symbolic link; name the file itself"),
    "another user's": (
        foreign_file,
        "the key file belongs to another user (uid 65534); make a copy",
    ),
}


@pytest.mark.timeout(10)  # a FIFO without a writer must not hold anybody up
@pytest.mark.parametrize(("make", "said"), NO_KEY_FILES.values(), ids=NO_KEY_FILES)
def test_a_key_path_that_is_no_private_file_is_rejected(
    tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    path = tmp_path / "key"
    make(path)
    with pytest.raises(UsageError) as caught:
        CurveKey.load(str(path))
    text = str(caught.value)
    assert text.startswith(f"--zmq-key-file {path}: {said}")
    assert "\n" not in text
    assert caught.value.exit_status is ExitStatus.USAGE


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """While the test runs, but not while its folder is made."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def silent(why: str) -> None:
    raise AssertionError(why)


def test_who_comes_first_on_a_host_makes_the_key_that_all_of_its_user_find(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = {*pool.map(lambda _: channel_key(None, None, silent), range(8))}
    (key,) = found
    assert isinstance(key, HostKey)
    folder = home / ".local" / "state" / "ssbench"
    assert [path.name for path in folder.iterdir()] == ["key"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for address in ("localhost", "127.0.0.1", "127.0.0.9", "::1"):
        assert channel_key(None, address, silent) == key
    for address in ("192.0.2.1", "0.0.0.0", "::", "bench-host-01"):
        assert channel_key(None, address, silent) is None


def test_a_key_file_goes_before_that_of_the_host(home: Path) -> None:
    path = str(home / "key")
    key = CurveKey.generate()
    key.save(path)
    assert channel_key(path, None, silent) == key
    assert not (home / ".local").exists()


@pytest.mark.parametrize(
    ("make", "said"),
    [case for name, case in NO_KEY_FILES.items() if name != "nothing"],
    ids=[name for name in NO_KEY_FILES if name != "nothing"],
)
def test_a_key_of_the_host_that_others_may_have_placed_is_an_error(
    home: Path, make: Callable[[Path], object], said: str
) -> None:
    path = home / ".local" / "state" / "ssbench" / "key"
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(UsageError) as caught:
        channel_key(None, None, silent)
    assert said.partition(";")[0] in str(caught.value)
    assert str(caught.value).endswith("; or go without a key: --zmq-key-file none")


def test_where_no_key_can_be_made_there_is_none(home: Path) -> None:
    (home / ".local").write_text("no folder")
    warnings: list[str] = []
    assert channel_key(None, None, warnings.append) is None
    (text,) = warnings
    assert text.endswith("other users of it can connect")


@pytest.mark.parametrize("home", ["", "/", "{}/none"])
def test_without_a_home_of_our_own_there_is_no_key(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", home.format(tmp_path))
    assert channel_key(None, None, silent) is None


def test_in_the_home_of_another_user_there_is_no_key(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = home.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert channel_key(None, None, silent) is None
    assert [*home.iterdir()] == []


@pytest.mark.usefixtures("umask")
def test_a_new_key_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "key"
    CurveKey.generate().save(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    CurveKey.load(str(path))


def test_a_key_is_not_written_through_a_link(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="never overwritten"):
        CurveKey.generate().save(str(path))
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_leaves_no_partial_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(fd: int, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", fails)
    with pytest.raises(UsageError, match="can't be written: No space left"):
        CurveKey.generate().save(str(tmp_path / "key"))
    assert not (tmp_path / "key").exists()


def test_no_repr_or_message_shows_a_key() -> None:
    key = CurveKey.generate()
    assert repr(key) == "CurveKey()"
    assert all(word not in repr(key) for word in key.to_text().split()[1:])
