"""Workers over ssh: what is started, what is wrong with a host, and that all of it ends.

A script stands for ssh: it runs the command here, or fails as ssh does. There is a real one in
tests/e2e/test_ssh_workers.py.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ssbench import __version__
from ssbench.core.errors import NoWorkersError, UsageError
from ssbench.core.hostlist import parse_hosts
from ssbench.runner.config import RunConfig, find_scenario
from ssbench.runner.local_workers import worker_options
from ssbench.runner.ssh_workers import SshWorkers
from ssbench.runner.stop import Stop
from ssbench.storage.options import StoreOptions
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.sockets import Ports
from tests.fakes.fake_ssh import fake_ssh, started
from tests.timing import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
Children = Callable[[], list[psutil.Process]]
WORKER = f"PYTHONPATH={ROOT} {sys.executable} -m ssbench.cli.worker"


@pytest.fixture(autouse=True)
def children() -> Children:
    """Gives the processes that the test started, without those of servers that tests share."""
    before = psutil.Process().children()
    return lambda: [child for child in psutil.Process().children() if child not in before]


def tree_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [
        *processes, *(child for each in processes for child in each.children(recursive=True))
    ]  # fmt: skip


@pytest.fixture
def ssh(tmp_path: Path) -> Callable[..., SshWorkers]:
    """``ssh(hosts, **fields of RunConfig)``"""
    command = fake_ssh(tmp_path)

    def make(hosts: str, **fields: Any) -> SshWorkers:
        config = RunConfig(
            scenario=find_scenario("very_small"), store=StoreOptions("noop", {}, {}),
            ssh_workers=parse_hosts(hosts),
            **{"ssh_command": command, "ssh_worker_command": WORKER, **fields},
        )  # fmt: skip
        _, hidden = worker_options(config, 3)
        return SshWorkers(config, ["--concurrency", "3"], hidden)

    return make


def wait(workers: SshWorkers) -> None:
    workers.wait_until_started(Stop(), lambda text: None)


def faults(workers: SshWorkers) -> list[str]:
    with pytest.raises(NoWorkersError) as caught, workers:
        wait(workers)
    assert caught.value.exit_status == 6
    return str(caught.value).splitlines()


def test_workers_start_and_end_with_the_block(
    ssh: Callable[..., SshWorkers], children: Children, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    key = CurveKey.generate()
    with ssh("a:2,me@b:1") as workers, MasterTransport("127.0.0.1", Ports(0, 0, 0), key) as wire:
        assert workers.count == 3
        wait(workers)
        assert workers.summary == "Started 3 workers over ssh: a (2), b (1)"
        assert workers.addresses == ["127.0.0.1"]
        workers.send_addresses(wire)
        tree = tree_of(children())
        for process in tree:
            shown = [*process.cmdline(), *process.environ().values()]
            assert not any(key.client_secret in word for word in shown)
        until(lambda: workers.exits() == [] and caplog.text.count("master expected at") == 3)
        assert not workers.all_gone()
    _, alive = psutil.wait_procs(tree, timeout=60)
    assert not alive
    assert any(
        text.startswith("b: ") and " b-0 INFO:Worker b-0 " in text for text in caplog.messages
    )


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, tree_of(psutil.Process().children())
        time.sleep(0.02)


def is_named(process: psutil.Process) -> bool:
    return " ".join(process.cmdline()).split()[-1:] == ["a-0"]


def test_a_killed_worker_and_a_killed_ssh_are_reported(
    ssh: Callable[..., SshWorkers], children: Children
) -> None:
    with ssh("a:2") as workers:
        workers.exclusive = True
        wait(workers)
        found: list[psutil.Process] = []
        # A process that is being loaded has no command line.
        until(lambda: found.extend(each for each in tree_of(children()) if is_named(each)) or found)
        worker = found[0]
        worker.send_signal(signal.SIGKILL)
        exits: list[Any] = []
        until(lambda: exits.extend(workers.exits()) or exits)
        assert [(gone.worker_id, gone.pid, gone.reason) for gone in exits] == [
            ("a-0", worker.pid, "it was killed by SIGKILL")
        ]
        assert not workers.all_gone()
        (client,) = children()
        client.kill()
        until(lambda: exits.extend(workers.exits()) or len(exits) == 2)
        assert exits[1].worker_id == "a-1"
        assert exits[1].reason.startswith("ssh to a ended with status -9; its log ends: ")
        assert workers.all_gone()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("nosuch", f"there is no nosuch (sh: 1: nosuch: not found); install ssbench {__version__}"),
        ("echo ssbench-worker: unknown option: --processes >&2; exit 2; :",
         "ended with status 2: ssbench-worker: unknown option: --processes; is it of release"),
        (started(release="0.9"), "is of release 0.9, this master of"),
        (started(7200), "s ahead of this host's; set both by NTP"),
        (started(-7200), "s behind this host's; set both by NTP"),
        (started(master=""), "give the address by --ssh-master"),
        (started(master="192.0.2.1"), "sees this host as 192.0.2.1, which is no address of this"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_host_is_said_in_one_line(
    ssh: Callable[..., SshWorkers], children: Children, command: str, why: str
) -> None:
    (line,) = faults(ssh("a", ssh_worker_command=command))
    assert line.startswith("the run was not started: a: ")
    assert why in line
    assert children() == []


def test_a_host_that_does_not_answer_in_time_is_named(
    ssh: Callable[..., SshWorkers], children: Children
) -> None:
    (line,) = faults(ssh("a", ssh_worker_command="sleep 100; :", worker_wait_s=0.2))
    assert "no response within 0.2 s (--worker-wait); try: ssh a sleep 100; : --version" in line
    assert children() == []


@pytest.mark.parametrize(("hosts", "named"), [("h{1..3}", ""), ("h{1..5}", " and 2 more")])
def test_the_first_hosts_that_are_waited_for_are_shown(
    ssh: Callable[..., SshWorkers], hosts: str, named: str
) -> None:
    shown: list[str] = []
    with ssh(hosts, ssh_worker_command="sleep 100; :", worker_wait_s=0.5) as workers:
        workers.find_faults(Stop(), shown.append)
    assert shown[0].startswith(f"Waiting for ssbench-worker on h1, h2, h3{named} (")
    assert shown[-1] == ""


def test_all_hosts_that_fail_are_named_and_the_others_end(
    ssh: Callable[..., SshWorkers], children: Children
) -> None:
    lines = faults(ssh("a:1,refused,silent"))
    assert lines == [
        "the run was not started: no workers on 2 of 3 hosts:",
        "  refused: ssh failed: root@refused: Permission denied (publickey).; it accepts no key of"
        " yours: load one into ssh-agent, or add yours to its authorized_keys; passwords are not"
        " asked for",
        "  silent: ssh failed: it does not say why; is the host up, and does sshd listen there?"
        " Try: ssh silent true",
    ]
    assert children() == []


def test_of_many_hosts_that_fail_the_first_are_named(ssh: Callable[..., SshWorkers]) -> None:
    first, *named, last = faults(ssh("h{01..12}", ssh_worker_command="exit 255; :"))
    assert first.endswith("no workers on 12 of 12 hosts:")
    assert (len(named), named[9].split(":")[0], last) == (10, "  h10", "  and 2 more")


def test_the_output_of_a_login_shell_and_of_a_flood_is_only_logged(
    ssh: Callable[..., SshWorkers], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    noise = "echo Welcome; printf 'x\\033[2J\\n'; head -c 3000000 /dev/zero; echo; "
    with ssh("a", ssh_worker_command=noise + started()) as workers:
        wait(workers)
    assert "a: Welcome" in caplog.messages
    assert "a: x\\x1b[2J" in caplog.messages
    assert max(map(len, caplog.messages)) < 100_000


def test_an_ssh_command_that_is_not_there_is_a_usage_error(
    ssh: Callable[..., SshWorkers],
) -> None:
    with (
        pytest.raises(UsageError, match="--ssh-command: can't be run: /no/such: No such file"),
        ssh("a", ssh_command=("/no/such",)),
    ):
        pass


def test_credentials_of_the_environment_stay_here(
    ssh: Callable[..., SshWorkers], children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_PASSWORD", "s3cret")
    monkeypatch.setenv("WEBDAV_PASSWORD", "s3cret")
    assert os.environ["OS_PASSWORD"]
    with ssh("a", ssh_worker_command="env >&2; " + started()) as workers:
        wait(workers)
        for process in tree_of(children()):
            assert "s3cret" not in process.environ().values()
