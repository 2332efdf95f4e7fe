"""upload, download and profiler as their users run them: real files, real stores."""

from __future__ import annotations

import hashlib
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.core.model import ErrorKind
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    MASTER,
    Account,
    Commands,
    Ended,
    Started,
    free_ports,
    login,
    rows_of,
    silenced,
    stats_of,
    until,
)
from tests.e2e.test_secrets import Watcher, none_has, nowhere
from tests.servers.s3 import SwiftS3
from tests.servers.webdav import WsgiDav

SIZES = {"a.bin": 3_000_000, "deep/er/b.txt": 100, "deep/c ü%\n.txt": 70_000, "empty": 0}
SEED_LINES = [
    r"Spawning 4 users to run",
    r"Copying 4 files concurrently",
    r"  4 files 3\.1 MB written in \d+\.\d+s",
    r"  Copy throughput per second: [\d.]+ [kM]B",
    r"real 0m\d+\.\d{3}s",
    r"user 0m\d+\.\d{3}s",
    r"sys 0m\d+\.\d{3}s",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    for name, size in SIZES.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    (place / "link").symlink_to("a.bin")
    os.mkfifo(place / "pipe")
    return place


class Transfer:
    """Commands with a stat file and ports of their own, on one Swift."""

    def __init__(self, commands: Commands, swift: EmbeddedSwift) -> None:
        self._commands, self._swift = commands, swift
        self._runs = 0

    def start(self, *words: object, workers: int = 1, **options: object) -> Started:
        self._runs += 1
        path = self._commands.place / f"transfer-{self._runs}.stat.gz"
        own = ["-s", path, "--workers", workers, *login(self._swift), *free_ports()]
        return self._commands.master(*words, *own, stat_file=path, **options)  # type: ignore[arg-type]

    def __call__(self, *words: object, workers: int = 1) -> Ended:
        return self.start(*words, workers=workers).wait()


@pytest.fixture
def transfer(commands: Commands, embedded_swift: EmbeddedSwift) -> Transfer:
    return Transfer(commands, embedded_swift)


@pytest.fixture
def account(embedded_swift: EmbeddedSwift) -> Account:
    return Account(embedded_swift)


def has_lines(text: str, patterns: list[str]) -> None:
    """The text has these lines in this order."""
    lines = iter(text.splitlines())
    for pattern in patterns:
        assert any(re.fullmatch(pattern, line) for line in lines), f"{pattern} in:\n{text}"


def test_a_tree_of_files_is_uploaded_under_its_names_with_each_checksum(
    transfer: Transfer, account: Account, folder: Path
) -> None:
    words = ("upload", folder, "--container", "tree/in/", "--compare", "--sweep", "users=4,3")
    ended = transfer(*words, workers=2).fine()
    has_lines(ended.out, [
        r"Swift container metadata: map\[\]",
        r"Letting Swift compute checksum\.\.\.", *SEED_LINES[:2],
        r"Store: swift at http://127\.0\.0\.1:\d+/v1/AUTH_test, .*container tree", *SEED_LINES[2:],
        "Checksums compared: 4 of 4",
        r"Precomputing checksum\.\.\.", *SEED_LINES[:2], "Checksums took .*", *SEED_LINES[2:],
        "Checksums compared: 4 of 4",
        r"Ignore checksums completely\.\.\.", *SEED_LINES,
    ])  # fmt: skip
    assert "Left out: 1 symbolic link" in ended.err
    assert "Left out: 1 special file" in ended.err
    assert account.contents("tree")["tree"] == sorted(f"in/{name}" for name in SIZES)
    for name in SIZES:
        found = account("GET", f"tree/in/{name}", safe="/")[2]
        assert hashlib.md5(found).digest() == hashlib.md5((folder / name).read_bytes()).digest()
    rows = [line.split() for line in ended.out.splitlines()[-7:]]
    assert rows[0][:3] == ["users", "checksum", "files"]
    steps = [[users, kind] for users in "43" for kind in ("store", "precompute", "none")]
    assert [row[:2] for row in rows[1:]] == steps
    assert all(row[2] == "4" and row[-1] in ("B", "kB", "MB") for row in rows[1:])
    paths = re.findall(r"Results saved to (\S+)", ended.err)
    assert [path.split(".")[-3] for path in paths] == [f"{kind}-{users}" for users, kind in steps]
    total = stats_of(Path(paths[0])).total()
    assert (total.count, total.bytes_moved) == (4, sum(SIZES.values()))


def test_objects_of_others_are_replaced_on_request_only(
    transfer: Transfer, account: Account, folder: Path
) -> None:
    account("PUT", "theirs")
    account.put("theirs", "other")
    account.put("theirs", "empty", b"precious")
    text = transfer("upload", folder, "--container", "theirs").one_line(ExitStatus.USAGE)
    assert "1 object with names of files: empty; --overwrite replaces them" in text
    assert account.contents("theirs")["theirs"] == ["empty", "other"]
    assert account("GET", "theirs/empty")[2] == b"precious"
    ended = transfer("upload", folder, "--container", "theirs", "--overwrite").fine()
    assert "not made by ssbench, 2 objects" in ended.out
    assert account("GET", "theirs/empty")[2] == b""
    assert account.contents("theirs")["theirs"] == sorted([*SIZES, "other"])


def test_a_download_is_compared_with_the_files(
    transfer: Transfer, account: Account, folder: Path
) -> None:
    account("PUT", "back")
    for name in SIZES:
        account.put("back", f"up/{name}", (folder / name).read_bytes())
    words = ("download", "--container", "back/up", "--verify", folder)
    ended = transfer(*words, "-u", 4).fine()
    has_lines(ended.out, [r"Container back: 4 objects", r"  4 objects 3\.1 MB read in \d+\.\d+s"])
    assert "Checksums compared: 4 of 4" in ended.out
    account.put("back", "up/more")
    account("DELETE", "back/up/empty")
    ended = transfer(*words).fine(ExitStatus.FAILED)
    assert "No file to compare with: up/more" in ended.err
    assert "Not in the container: empty" in ended.err
    assert "Checksums compared: 3 of 4" in ended.out
    account.put("back", "up/empty", b"")
    account.put("back", "up/deep/er/b.txt", b"y" * 100)
    ended = transfer(*words).fine(ExitStatus.CORRUPTION)
    assert "back/up/deep/er/b.txt: its MD5 is" in ended.err


def spoil(folder: Path, copy: Path) -> dict[str, str]:
    """What workers find in place of the files; name -> what is said of it."""
    for name in SIZES:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
    (copy / "a.bin").write_bytes(b"short")
    (copy / "deep/er/b.txt").symlink_to("anywhere")
    (copy / "empty").mkdir()
    return {
        "a.bin": "was changed since it was listed (5 bytes, not 3,000,000)",
        "deep/er/b.txt": "is a symbolic link; links are not followed",
        "deep/c ü%\\n.txt": "No such file or directory",
        "empty": "is no longer a regular file",
    }


def test_what_is_wrong_with_a_file_is_said_by_name(
    transfer: Transfer, account: Account, folder: Path, tmp_path: Path
) -> None:
    wrong = spoil(folder, tmp_path / "seen")
    words = ("--container", "wrong", "--worker-dir", tmp_path / "seen")
    ended = transfer("upload", folder, *words)
    ended.fine(ExitStatus.FAILED)
    assert "WARNING: 4 of 4 files failed: " in ended.err
    rows = [*rows_of(ended.results)]
    assert {row["error"] for row in rows} == {ErrorKind.SOURCE_FILE}
    assert sorted(row["detail"] for row in rows) == sorted(
        f"{tmp_path}/seen/{name}: {why}" for name, why in wrong.items()
    )
    assert account.contents("wrong")["wrong"] == []


def two_trees(tmp_path: Path) -> tuple[Path, Path]:
    """Folders of two files: what workers see of one of them is another content of its size."""
    for name, digit in (("seen", b"2"), ("listed", b"1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "alike").write_bytes(b"1" * 400_000)
        (tmp_path / name / "other").write_bytes(digit * 400_000)
    return tmp_path / "listed", tmp_path / "seen"


def test_a_store_refuses_another_content_than_was_hashed(
    transfer: Transfer, account: Account, tmp_path: Path
) -> None:
    listed, seen = two_trees(tmp_path)
    words = ("--checksum", "precompute", "--worker-dir", seen)
    ended = transfer("upload", listed, "--container", "refused", *words)
    ended.fine(ExitStatus.CORRUPTION)
    assert "other: the store received another MD5 than" in ended.err
    assert account.contents("refused")["refused"] == ["alike"]


def test_other_stores_take_files_too(commands: Commands, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.mkdir()
    words = ("--storage", "file", "--path", path, "--workers", 1, *free_ports())
    ended = commands.master("upload", folder, "--container", "c/d", *words).wait().fine()
    assert "Ignore checksums completely" in ended.out
    for name in SIZES:
        assert (path / "c/d" / name).read_bytes() == (folder / name).read_bytes()
    ended = commands.master("download", "--container", "c/d", "--verify", folder, *words).wait()
    assert "Checksums compared: 4 of 4" in ended.fine().out


def test_s3_compares_and_refuses_checksums(
    commands: Commands, folder: Path, tmp_path: Path
) -> None:
    listed, seen = two_trees(tmp_path)
    with SwiftS3("Hv8-secret-key-of-the-upload-tests") as server:
        given = {"environment": server.environment}
        words = [*server.options, "--container", "files", "--workers", 1, *free_ports()]
        more = ["--compare", "--s3-payload", "unsigned"]
        ended = commands.master("upload", folder, *words, *more, **given).wait().fine()
        assert ended.out.count("Checksums compared: 4 of 4") == 2
        more = ["--checksum", "precompute", "--worker-dir", seen]
        ended = commands.master("upload", listed, *words, *more, **given).wait()
        assert "the store received another MD5 than" in ended.fine(ExitStatus.CORRUPTION).err


def test_webdav_makes_folders_and_says_that_nothing_was_compared(
    commands: Commands, folder: Path
) -> None:
    with WsgiDav("digest") as server:
        given = {"environment": server.environment}
        words = [*server.options, "--container", "files", "--workers", 1, *free_ports()]
        ended = commands.master("upload", folder, *words, **given).wait().fine()
        assert "Checksums compared: none, the store's responses have no MD5" in ended.out
        for name in ("a.bin", "deep/er/b.txt", "empty"):
            assert (server.files / "files" / name).read_bytes() == (folder / name).read_bytes()
        ended = commands.master("download", "--verify", folder, *words, **given).wait()
        assert "Checksums compared: 4 of 4" in ended.fine().out


def test_a_command_line_of_swift_profiler_takes_its_env_file_and_shows_no_secret(
    commands: Commands, fresh_swift: Callable[..., EmbeddedSwift], folder: Path, tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    key = "Yr5-key-of-the-env-file"
    swift = fresh_swift(proxy_conf={"filter:tempauth": {"user_test_tester": f"{key} .admin"}})
    place = tmp_path_factory.mktemp("env")
    (place / ".env").write_text(
        f"# credentials\nexport ST_AUTH='{swift.auth_url}'\nST_USER={swift.user}\n"
        f'export ST_KEY="{key}"  # secret\n'
    )
    path = tmp_path / "profiler.stat.gz"
    own = ["--workers=1", *pairs(free_ports()), f"--stats-file={path}"]
    seed = f"-concurrency=4 -input-dir={folder} -dest-prefix=benchmark-test -num-files=120"
    words = [*own, *seed.split(), "-precompute-checksum=true", "-verify-checksum=false"]
    started = commands.start(
        [MASTER, "-v", "profiler", *words], prefix=["env", "-C", str(place)], stat_file=path
    )
    with Watcher(started) as watcher:
        ended = started.wait().fine()
    stamp = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d "
    has_lines(ended.out, [
        stamp + r"Swift container metadata: map\[\]",
        stamp + r"Ignore checksums completely\.\.\.",
        *(stamp + line for line in SEED_LINES[:4]), *SEED_LINES[4:],
    ])  # fmt: skip
    assert "Port 6060 is not opened" in ended.err
    assert Account(swift, key).contents()["benchmark-test"] == sorted(SIZES)
    none_has(watcher.public | watcher.inherited, key)
    nowhere(tmp_path, key)


def pairs(options: list[str]) -> list[str]:
    return [f"{name}={value}" for name, value in zip(options[::2], options[1::2], strict=True)]


def large(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"large-{number}").write_bytes(b"0" * 200_000)


def test_an_upload_that_is_interrupted_keeps_its_results(
    transfer: Transfer, account: Account, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    large(folder, 60)
    words = ("upload", folder, "--container", "stopped", "-u", 2, "--bandwidth", "800kB")
    started = transfer.start(*words)
    until("an upload", lambda: "stopped" in account.containers() and started.on_disk("CREATE") > 2)
    started.interrupt()
    ended = started.wait().fine(ExitStatus.INTERRUPTED)
    assert "Not begun: " in ended.err
    done = ended.stats.total().count
    assert 2 < done < 60
    assert len(account.contents("stopped")["stopped"]) == done


def waiting(port: int) -> int:
    """How many connections to a server have brought what it has not read."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    queues = [(words[1], words[4]) for words in map(str.split, lines)]
    return sum(
        int(local[-4:], 16) == port and int(queued.partition(":")[2], 16) > 0
        for local, queued in queues
    )


def test_files_that_a_killed_worker_held_are_named(
    transfer: Transfer, account: Account, embedded_swift: EmbeddedSwift, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    large(folder, 40)
    words = ("upload", folder, "--container", "killed", "-u", 4, "--bandwidth", "1MB")
    started = transfer.start(*words, workers=2)
    until("an upload", lambda: "killed" in account.containers() and started.on_disk("CREATE") > 2)
    with silenced(embedded_swift):
        until("each user waits for it", lambda: waiting(embedded_swift.port) >= 4)
        started.workers()[0].send_signal(signal.SIGKILL)
        started.wait_for("Lost worker")
    ended = started.wait().fine(ExitStatus.WORKERS_LOST)
    assert re.search(
        r"WARNING: \d+ of 40 files failed \(\d+ lost with a worker\): large-", ended.err
    )
