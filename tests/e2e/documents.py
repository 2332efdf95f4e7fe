"""The commands of the documents: each runs in its turn, as its page has it, but for size and hosts.

A page's commands share a folder. Their scenarios are there under the same names, with few and
small objects, and so are the stat files and folders that the page takes for granted. REPLACED says
what else differs: fewer and shorter operations, and hosts that exist here. One Swift serves all
pages of a file of tests, and one worker those that are not in OWN_WORKERS.
"""

from __future__ import annotations

import gzip
import json
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet
from msgspec.structs import replace

from ssbench import statfile
from ssbench.core.naming import RUN_ID_BYTES
from ssbench.core.records import RunHeader
from ssbench.runner.config import CANNED
from ssbench.statfile import StatFileWriter
from tests.commands.test_converted import WORKLOAD
from tests.commands.test_log_formats import combined
from tests.e2e.commands import WORKER, Account, Started, clean_environment, until
from tests.e2e.warm import Forked
from tests.ports import held_port
from tests.servers.dictstore import DictStore
from tests.servers.s3 import SwiftS3
from tests.servers.sshd import Sshd
from tests.servers.webdav import Apache
from tests.test_docs import ROOT, command_lines, page

#: Commands that are not run here -> the test that runs them, or what else covers them.
ELSEWHERE = {
    r"make ": "tests/test_docs.py::test_command_lines_are_accepted_by_the_parsers",
    r"python -m ssbench.embedded": "tests/embedded/test___main__.py",
    r".* nectar .*/v3/": "tests/e2e/test_keystone.py",
    r".* -V 2 ": "tests/storage/swift/test_login.py",
    r".* bench suite --count 100000 ": "tests/e2e/test_bench.py",
    r".* --influx ": "tests/e2e/test_influx.py",
    r".* --otlp ": "tests/live/test_otlp.py",
    r".* mark ": "tests/live/test_marks.py",
    r".* --from 'node 3": "tests/commands/test_selection.py",
    r".* --sse-c-key-file ": "tests/e2e/test_encryption.py",
    r".* --identities ": "tests/e2e/test_identities.py",
    r".* one.stat.gz two.stat.gz": "tests/commands/test_report_files.py",
}
#: In this order: a pattern, and what is put in its place.
REPLACED = (
    # less
    (r"(-o|--count|--large-count|-count) \d+", r"\1 5"),
    (r"(-r|--duration|--time|-time) [\d.]+[smh]?", r"\1 0.1"),
    (r"(--warmup|--pause|--long-pause) [\d.]+", r"\1 0.02"),
    (r"(-u|--users|-concurrency|--mixed-users|--max-users)([ =])\d+", r"\1\g<2>4"),
    (r"users=\d+,[\d,]+", "users=1,2"),
    (r"rate=[\d,]+", "rate=50,100"),
    (r"(--containers|-containers) \d+", r"\1 2"),
    (r"--iterations \d+", "--iterations 2"),
    (r"bench put (?!.*--count)", "bench put --count 5 "),
    (r"(--output|-f) mine.scenario", r"\1 made.scenario"),
    (r"--output photos.scenario", "--output sizes.scenario"),
    (r"make-scenario --from-([ac][co][cn])", r"make-scenario --objects 2 --from-\1"),
    (r"-f (made|cosbench|warp).scenario", r"-f \1.scenario -r 0.1 -c 1"),
    (r"(run-scenario|ab) my\.scenario", r"\1 very_small"),
    (r"master ab (?!.*--repeat)", "master ab --repeat 2 "),
    (r"--repeat \d+", "--repeat 2"),
    (r"--step-seconds \d+", ""),
    (r"--from \d+s --to", "--from 0s --to"),
    (r"find-limit", "find-limit --step-seconds 0.1 --warmup 0 --confirm 0"),
    (r"gen-files (\S+) \d+ \d+M", r"gen-files \1 10 1M"),
    (r"--processes \S+", "--processes 2"),
    (r"--container-base", "--workers 1 --container-base"),
    # here
    (r"--embedded-swift ?", ""),
    (r"bench-host-01|192\.0\.2\.1\d|(?<=-bind-ip )0\.0\.0\.0", "127.0.0.1"),
    (r"\{01\.\.\d+\}(:\d+)?", "{01..02}:1"),
    (r"--worker-dir \S+ ?", ""),
    (r"--worker bench-\d+ --endpoint \S+", "--worker shared --endpoint 127.0.0.1"),
    (r"/(data|mnt|tmp)/", ""),
    (r"--s3-endpoint \S+ --s3-bucket bench", "--s3-bucket bucket"),
    (r"bench (put|get) bench (.*--storage s3)", r"bench \1 objects \2"),
)
#: Pages whose runs have workers of their own, in processes of their own.
OWN_WORKERS = (
    "README.rst", "several-hosts.rst", "drivers.rst", "first-run.rst", "own-cluster.rst",
    "first-comparison.rst",
)  # fmt: skip
#: How-tos on other tools, and on users' own files and logs: half of all commands of how-tos.
OF_OTHER_TOOLS = (
    "coming-from.rst", "file-io.rst", "from-your-data.rst", "nectar.rst", "upload.rst",
    "webdav.rst",
)  # fmt: skip
#: Page -> what it needs that not every host has.
NEEDED = {
    "README.rst": "sshd", "starting-workers.rst": "sshd", "stores.rst": "apache2",
    "webdav.rst": "apache2",
}  # fmt: skip
#: Commands that may miss what they are asked for: a host's state, latencies, rates.
JUDGES = re.compile(r" (doctor|find-limit) |--(threshold|fail-if) '(p99|rate)")
#: The log that replays and scenarios are made from.
LOG = "".join(
    combined(method, f"/c/o{number}", status, 100).replace(
        "10/Oct/2000:13:55:36", f"20/Nov/2026:08:00:0{number % 2}"
    )
    + "\n"
    for number in range(9)
    for method, status in (("PUT", 201), ("GET", 200))
)


class Servers(NamedTuple):
    """What all pages of a file of tests use."""

    environment: dict[str, str]  #: login, key and ports among it
    place: Path  #: of a key file, and the stat file of a run
    storage_url: str
    token: str


@contextmanager
def started_servers(place: Path) -> Iterator[Servers]:
    with ExitStack() as opened:
        server = opened.enter_context(SwiftS3())
        assert isinstance(server, SwiftS3)
        swift = server.swift
        environment = {
            **clean_environment(), **server.environment, **ports_of_a_master(),
            "ST_AUTH": swift.auth_url, "ST_USER": swift.user, "ST_KEY": swift.key,
            "AWS_ENDPOINT_URL": server.url, "TMPDIR": str(place),
            "SSBENCH_KEY_FILE": str(place / "ssbench.key"), "SSBENCH_EXPECT_WORKERS": "1",
        }  # fmt: skip
        start("ssbench-master make-key ssbench.key", place, environment).wait().fine()
        opened.callback(
            interrupt, start("ssbench-worker --allow-path / shared", place, environment)
        )
        (place / "some").write_text(scaled(ROOT / "scenarios/small.scenario"))
        line = "ssbench-master run-scenario -f some -o 50 --seed 1 -s run.stat.gz"
        start(line, place, environment).wait().fine()
        account = Account(swift)
        account("PUT", "photos", X_Container_Meta_Ssbench="1")
        assert account.put("photos", "2024/one.jpg", b"x" * 1000) == 201
        account("PUT", "bucket")
        yield Servers(environment, place, swift.storage_url, account.token)


def ports_of_a_master() -> dict[str, str]:
    names = ("WORK", "RESULTS", "CONTROL")
    return {f"SSBENCH_ZMQ_{name}_PORT": str(held_port()) for name in names}


def start(line: str, place: Path, environment: dict[str, str]) -> Started:
    program, *words = shlex.split(line, comments=True)
    args = [sys.executable, str(ROOT / "bin" / program), *words]
    output = place / f"{len([*place.iterdir()])}.output"
    with output.open("ab") as file:
        process = Forked(args, stdout=file, stderr=file, env=environment, cwd=place)
    return Started(process, output, output)


def interrupt(started: Started) -> int:
    started.interrupt()
    return started.wait().status


#: What ends a run or a stage -> as soon as it can.
ENDS = {"run_seconds": 0.1, "seconds": 0.1, "epochs": 1, "operation_count": 5}


def scaled(path: Path | None, text: str = "") -> str:
    """A scenario with few and small objects, few operations and few users."""
    keys = json.loads(text or path.read_text())
    for size in keys["sizes"]:
        for name in ("size_min", "size_max"):
            if isinstance(size.get(name), int):
                size[name] = min(size[name], 20_000)
            elif name in size:  # with a unit, as in "64MiB"
                size[name] = 20_000
        if "size" in size:
            size["size"] = 20_000
    files = keys.get("initial_files", {})  # stages with operations need none
    keys["initial_files"] = {name: min(n, 1) for name, n in files.items()}
    keys |= {"user_count": min(keys["user_count"], 4), "container_count": 1}
    of_stages = [stage for stage in keys.get("stages", ()) if {*stage} & {*ENDS}]
    for part in of_stages or [keys]:
        for key, least in ENDS.items():
            if key in part:
                part[key] = least
                break
        else:
            part["operation_count"] = ENDS["operation_count"]
    return json.dumps(keys)


def scenarios_in(path: Path) -> list[str]:
    """The scenarios that a page shows whole."""
    return re.findall(r"^\{\n.*?^\}$", page(path).astext(), re.MULTILINE | re.DOTALL)


def copy_as_another_run(run: Path, copy: Path) -> None:
    """Copy a stat file with a run id of its own: compare refuses the same run twice."""
    run_id = secrets.token_hex(RUN_ID_BYTES)
    with statfile.read(str(run)) as records, StatFileWriter.create(str(copy)) as writer:
        for record in records:
            is_header = isinstance(record, RunHeader)
            writer.write(replace(record, run_id=run_id) if is_header else record)


def prepare(place: Path, lines: list[str], servers: Servers) -> None:
    """Make what the commands of a page take for granted."""
    text = "\n".join(lines)
    for name in CANNED:
        (place / name).write_text(scaled(ROOT / f"scenarios/{name}.scenario"))
    (photos,) = scenarios_in(ROOT / "docs/tutorial/first-run.rst")
    (one,) = scenarios_in(ROOT / "docs/how-to/webdav.rst")
    shown = {"photos.scenario": photos, "one.scenario": one}
    made = {*re.findall(r"--output (\S+)|(?:run-scenario|find-limit).*? -s (\S+)", text)}
    made = {name for names in made for name in names}
    for name in {*re.findall(r"-f (\S+\.scenario)", text)} - made:
        (place / name).write_text(scaled(ROOT / "scenarios/small.scenario", shown.get(name, "")))
    for name in {*re.findall(r"\S+\.stat\.gz", text)} - made:
        copy_as_another_run(servers.place / "run.stat.gz", place / name)
    shutil.copy(servers.place / "ssbench.key", place / "ssbench.key")
    (place / "ssbench-results").mkdir()
    shutil.copy(servers.place / "run.stat.gz", place / "ssbench-results")
    for name in ("photos", "big", "files", "benchmark-test", "k4", "m4"):
        (place / name).mkdir()
        (place / name / "file_0.txt").write_bytes(bytes(8192))
    (place / "suite").mkdir()
    (place / "bench").mkdir()
    (place / "proxy.log").write_text(LOG)
    (place / "workload.xml").write_bytes(WORKLOAD)
    (place / "proxy.log-20261120.gz").write_bytes(gzip.compress(LOG.encode()))


class Reader:
    """Follows a page: a context manager that ends what still runs."""

    def __init__(self, place: Path, environment: dict[str, str]) -> None:
        self.place = place
        self.environment = {**environment, "TMPDIR": str(place)}
        self._number = 0
        self._left: list[tuple[str, Started]] = []

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        for _, started in self._left:
            started.process.kill()

    def run(self, line: str) -> None:
        """Run a command; of those that go on until they are told to end, start it."""
        if "make-key" in line:
            (self.place / "ssbench.key").unlink()
        # Two runs of a scenario within a second would have the same stat file by default.
        self._number += 1
        results = str(self.place / f"results-{self._number}")
        started = start(line, self.place, {**self.environment, "SSBENCH_RESULTS_DIR": results})
        if re.search(r"^ssbench-worker ", line):
            self._left.append((line, started))
            # A signal before its first words would end the start.
            until("its first words", started.talk)
            if "--network-server" in line:
                started.wait_for("istening")
            return
        if re.search(r" --web\b| browse ", line):
            started.wait_for(" until Ctrl-C")
            status = interrupt(started)
        else:
            status = started.wait().status
        check(line, status, started.talk())

    def end(self) -> None:
        """End what still runs."""
        while self._left:
            line, started = self._left.pop()
            check(line, interrupt(started), started.talk())


def check(line: str, status: int, said: str) -> None:
    assert status in ((0, 1, 3) if JUDGES.search(line) else (0,)), f"{line}: {status}\n{said}"
    assert "Traceback" not in said, said


def with_commands(paths: Iterable[Path]) -> list[ParameterSet]:
    """Those pages that have commands, as parameters of a test."""
    # To parse all of them here would cost each process of pytest two seconds.
    return [
        pytest.param(
            path,
            marks=[pytest.mark.program(NEEDED[path.name])] if path.name in NEEDED else [],
            id=path.name,
        )
        for path in paths
        if re.search(r"^.*(ssbench-master|ssbench-worker) ", path.read_text(), re.MULTILINE)
    ]


def check_page(path: Path, place: Path, servers: Servers) -> None:
    """Run the commands of a page in their order, in a folder of its own."""
    environment = {**servers.environment}
    here = [
        ("\\$TOKEN", servers.token),
        (r"http://proxy\d\S+", servers.storage_url),
        (r"http://192\S+/auth/v1.0", environment["ST_AUTH"]),
    ]
    with ExitStack() as opened:
        if path.name in OWN_WORKERS:
            environment = {**environment, **ports_of_a_master()}
            del environment["SSBENCH_EXPECT_WORKERS"]
            here.append((r"--workers \d+", "--workers 1"))
        else:  # that of the fixture
            here += [(r"--workers \d+", ""), (r"--expect-workers \d+", "--expect-workers 1")]
        if NEEDED.get(path.name) == "sshd":
            (place / "sshd").mkdir()
            sshd = opened.enter_context(Sshd(place / "sshd"))
            environment["SSBENCH_SSH_COMMAND"] = sshd.ssh
            worker = f"PYTHONPATH={ROOT} {sys.executable} {WORKER}"
            environment["SSBENCH_SSH_WORKER_COMMAND"] = worker
            here.append(("--ssh-workers", "--expect-workers 2 --ssh-workers"))
        if NEEDED.get(path.name) == "apache2":
            apache = opened.enter_context(Apache())
            here.append((r"https?://\S+/(dav|bench)", apache.url))
        if path.name == "drivers.rst":
            store = opened.enter_context(DictStore())
            environment |= store.environment
            here.append((r"127.0.0.1:7070", store.address))
        if path.name == "programs.rst":
            here += [
                (rf"(--metrics-port) \S+:{port}", rf"\1 127.0.0.1:{held_port()}")
                for port in (13584, 13585)
            ]
            here.append(("--processes 2", "--processes 1"))
        if path.name == "network.rst":
            side = f"127.0.0.1:{held_port()}"
            here += [("--network-server", f"--network-server {side}"), (" store-01", f" {side}")]
        lines = []
        for line in command_lines(path):
            if any(re.match(pattern, line) for pattern in ELSEWHERE):
                continue
            for pattern, text in (*REPLACED, *here):
                line = re.sub(pattern, text, line)
            lines.append(line)
        prepare(place, lines, servers)
        reader = opened.enter_context(Reader(place, environment))
        for line in lines:
            reader.run(line)
        reader.end()
