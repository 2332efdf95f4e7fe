"""The checks of doctor, against a store in memory that fails as stores do."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest

from ssbench import __version__
from ssbench.commands.doctor import (
    CHECKS,
    CONTAINER_BASE,
    LARGE_BYTES,
    Doctor,
    Finding,
    Verdict,
)
from ssbench.core.hostlist import parse_hosts
from ssbench.core.messages import Heartbeat, Jobs, Results
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.naming import naming_of
from ssbench.core.operations import CREATE, DELETE, HEAD, READ, row_of
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import StorageSettings, TransportConfig
from ssbench.runner.config import RunConfig, ScenarioText
from ssbench.storage.base import StoreLimits, StoreState
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import StoreRow
from ssbench.transport.sockets import Ports
from tests.core.workload.fleet import packed
from tests.fakes.fake_ssh import fake_ssh, started
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error
from tests.fakes.scripted_master import host_key
from tests.fakes.scripted_worker import Script, ScriptedWorker
from tests.ports import held_port

CONTAINER = f"{CONTAINER_BASE}_000000"
WRONG = (Verdict.WARNING, Verdict.FAILED)


class Driver(MemoryStorage):
    """Both halves, over the store of the present test."""

    ROW = StoreRow("memory", f"{__name__}:Driver", features=("policy",))
    operations = frozenset(range(64))
    memory = MemoryStore()
    reports = StoreState()

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(self.memory, settings)
        self.actions = dict.fromkeys((CREATE, READ, HEAD, DELETE), self._act)

    def connect(self, count: int) -> None:
        """Does nothing."""

    def _act(self, job: Job, deadline_ns: int) -> Timing:
        naming, place = naming_of(self.settings), (job.size_class, job.object)
        container, name = naming.container(*place), naming.object(*place)
        with self._request(row_of(job.operation).name, name):
            if job.operation == CREATE:
                self.store.add(container, name, size=job.size)
            elif job.operation == DELETE:
                del self.store.container(container).objects[name]
        now = perf_counter_ns()
        return Timing(now, now, now, max(job.size, 0), 200)

    def state(self) -> StoreState:
        return self.reports


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    made = MemoryStore()
    monkeypatch.setattr(Driver, "memory", made)
    monkeypatch.setattr(Driver, "reports", StoreState(10**9, 0.5))
    yield made
    # Whatever happens: what doctor made is deleted, and nothing else.
    assert [name for name, each in made.containers.items() if each.marker] == []


def scenario(**changes: Any) -> Scenario:
    keys: dict[str, Any] = {
        "name": "A scenario",
        "sizes": [{"name": "tiny", "size_min": 1000, "size_max": 1000}],
        "initial_files": {"tiny": 10},
        "operation_count": 10,
        "crud_profile": [1, 1, 1, 1],
        "user_count": 2,
    }
    return Scenario.from_json(json.dumps({**keys, **changes}))


def config(folder: Path, **changes: Any) -> RunConfig:
    given: dict[str, Any] = {
        "scenario": ScenarioText(b"", "doctor"),
        "store": StoreOptions(f"{__name__}:Driver", {}),
        "workers": 1,
        "transport": TransportConfig(None, 0, 0, 0),
        "stats_file": str(folder / "x.stat.gz"),
    }
    return RunConfig(**{**given, **changes})


def with_a_remote_worker(folder: Path) -> tuple[RunConfig, Ports]:
    """A configuration that expects one, and where it is to connect."""
    ports = Ports(*(held_port() for _ in range(3)))
    transport = TransportConfig(None, ports.work, ports.results, ports.control)
    return config(folder, workers=None, expect_workers=1, transport=transport), ports


def found(settings: RunConfig, wanted: Scenario | None = None) -> dict[str, list[Finding]]:
    """The findings of each check that is not well."""
    rows: dict[str, list[Finding]] = {}
    for each in Doctor(settings, wanted).findings():
        assert each.result.count("\n") < 3  # what happened, why, what to do
        if each.verdict in WRONG:
            rows.setdefault(each.check, []).append(each)
    return rows


def test_all_is_well(store: MemoryStore, tmp_path: Path) -> None:
    rows = list(Doctor(config(tmp_path), scenario(policy="GOLD", rate=10)).findings())
    assert [row.check for row in rows] == [row.name for row in CHECKS if row.name != "hosts"]
    assert {row.verdict for row in rows} == {Verdict.OK}
    assert store.count("limits") == 1
    assert store.containers == {}


def test_a_store_that_is_not_reached_leaves_the_other_checks(tmp_path: Path) -> None:
    nowhere = StoreOptions("no.such.module:Driver", {})
    rows = list(Doctor(config(tmp_path, store=nowhere)).findings())
    failed = [row.check for row in rows if row.verdict is Verdict.FAILED]
    skipped = [row.check for row in rows if row.verdict is Verdict.SKIPPED]
    assert "login" in failed
    assert set(skipped) == {row.name for row in CHECKS if row.needs_login}


def test_no_credentials(tmp_path: Path) -> None:
    (row,) = found(config(tmp_path, store=StoreOptions("swift", {})))["login"]
    assert row.result.startswith("no credentials: ")
    for way in ("-A, -U, -K", "OS_AUTH_URL", "-T and -S", "another --storage", "--embedded-swift"):
        assert way in " ".join(row.result.split())


def test_what_was_uploaded_is_deleted_if_a_later_request_fails(
    store: MemoryStore, tmp_path: Path
) -> None:
    store.fail("READ", *[status_error(500)] * 9)
    assert found(config(tmp_path))["role"][0].verdict is Verdict.FAILED
    assert store.containers == {}


def test_what_could_not_be_deleted_is_said(store: MemoryStore, tmp_path: Path) -> None:
    store.fail("delete_container", status_error(409))  # of the role; the network's is
    (row,) = found(config(tmp_path))["role"]
    assert row.verdict is Verdict.WARNING
    assert row.result == (
        f"{CONTAINER} could not be deleted: the store answered 409; cleanup-containers -b"
        " ssbench_doctor tries again"
    )


def test_a_container_of_others_is_left_alone(store: MemoryStore, tmp_path: Path) -> None:
    store.add(CONTAINER, "theirs")
    rows = found(config(tmp_path))
    assert "nothing says that ssbench made it" in rows["role"][0].result
    assert list(store.containers[CONTAINER].objects) == ["theirs"]


def test_a_policy_that_the_store_lacks(store: MemoryStore, tmp_path: Path) -> None:
    rows = found(config(tmp_path), scenario(policy="iron"))
    assert rows["policy"][0].verdict is Verdict.FAILED
    assert "gold, silver" in rows["policy"][0].result
    assert "limits" not in rows


def test_limits_are_compared_with_the_sizes_of_the_scenario(
    store: MemoryStore, tmp_path: Path
) -> None:
    names = ["tiny", "small", "huge"]
    sizes: list[dict[str, Any]] = [{"name": n, "size_min": 1, "size_max": 10} for n in names]
    sizes[2]["size_max"] = 6 * 2**30
    wanted = scenario(sizes=sizes, initial_files=dict.fromkeys(names, 1))
    row = found(config(tmp_path), wanted)["limits"][0]
    assert 'sizes[2] "huge": size_max 6442450944 is more than' in row.result


def test_too_little_space_for_the_scenario(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Driver, "reports", StoreState(9_000, None))
    rows = found(config(tmp_path), scenario())
    assert "take 10.0 kB, and the store has 9.0 kB" in rows["limits"][0].result
    assert rows["quota"][0].advice == "delete objects, or raise the quota"


def uploading(error: ErrorKind) -> Script:
    """Each upload ends so."""

    def upload(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
        assert scripted.state is not None
        data = packed(jobs, error=int(error))
        run = scripted.state.run
        scripted.transport.send(
            Results(scripted.incarnation, run, batch.phase, [batch.batch], data)
        )

    return upload


OK, WARNING, SKIPPED = Verdict.OK, Verdict.WARNING, Verdict.SKIPPED


@pytest.mark.parametrize(
    ("reports", "policies", "wanted", "expected"),
    [
        (StoreState(), (), None, {
            "quota": (SKIPPED, "the store reports no quota of this user"),
            "clocks": (SKIPPED, "the store reports no time"),
            "policy": (SKIPPED, "the store reports no storage policies"),
            "bottleneck": (SKIPPED, "name a scenario with -f"),
            "limits": (OK, "objects of 5.4 GB, names of 1024 bytes, bulk deletes of 9"),
            "descriptors": (OK, "1 user in 1 worker of this host"),
        }),
        (StoreState(LARGE_BYTES, 2.0), ("gold", "silver"), {}, {
            "quota": (OK, "67.1 MB are left"),
            "clocks": (OK, "this host's clock and the store's agree within 2 s"),
            "policy": (OK, "the default one, of gold, silver"),
            "limits": (OK, "objects of 5.4 GB, names of 1024 bytes, bulk deletes of 9, and the"
                           " scenario is within them"),
            "descriptors": (OK, "2 users in 1 worker of this host"),
        }),
        (StoreState(LARGE_BYTES - 1, 2.6), ("gold",), {"policy": "gold"}, {
            "quota": (WARNING, "67.1 MB are left"),
            "clocks": (WARNING, "this host's clock is 3 s ahead of the store's"),
            "policy": (OK, '"gold" is there'),
        }),
        (StoreState(10**9, -2.6), None, {"policy": "gold"}, {
            "clocks": (WARNING, "this host's clock is 3 s behind the store's"),
            "policy": (WARNING, "the store doesn't list its storage policies: whether it has"
                                ' "gold" is known once the first container is made'),
        }),
    ],
)  # fmt: skip
def test_what_a_store_reports_is_said(
    store: MemoryStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reports: StoreState,
    policies: tuple[str, ...] | None,
    wanted: dict[str, Any] | None,
    expected: dict[str, tuple[Verdict, str]],
) -> None:
    limits = StoreLimits(
        max_object_size=5 * 2**30, max_object_name_length=1024, policies=policies,
        bulk_delete_max=9,
    )  # fmt: skip
    monkeypatch.setattr(Driver, "reports", reports)
    monkeypatch.setattr(Driver, "limits", lambda self: limits)
    store.policies = policies or ("gold",)
    rows = Doctor(config(tmp_path), None if wanted is None else scenario(**wanted)).findings()
    said = {row.check: (row.verdict, row.result) for row in rows}
    assert {name: said[name] for name in expected} == expected


def test_what_was_not_measured_is_not_judged(store: MemoryStore, tmp_path: Path) -> None:
    store.fail("make_container", *[status_error(403)] * 4)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = TransportConfig(None, other.getsockname()[1], 0, 0)
        rows = [*Doctor(config(tmp_path, transport=taken), scenario()).findings()]
    assert {row.check: row.result for row in rows if row.verdict is SKIPPED} == {
        "network": "not checked without the role",
        "workers": "not checked without ports",
        "bottleneck": "not known without the checks of role and network",
    }


def test_a_worker_of_this_host_runs_as_many_users_as_its_limits_allow(
    store: MemoryStore, tmp_path: Path
) -> None:
    remote = config(tmp_path, workers=None, worker_wait_s=0.0)
    for users, verdict in ((2, OK), (10**6, WARNING)):
        rows = Doctor(remote, scenario(user_count=users)).findings()
        row = next(row for row in rows if row.check == "descriptors")
        assert row.verdict is verdict
        assert row.result.startswith("a worker on this host can run ")


def test_workers_that_can_not_run_all_users(store: MemoryStore, tmp_path: Path) -> None:
    mine, ports = with_a_remote_worker(tmp_path)

    def in_time(heartbeat: Heartbeat) -> Heartbeat:
        return heartbeat._replace(worker_ns=time.perf_counter_ns(), wall_ns=time.time_ns())

    with ScriptedWorker(ports, uploading(ErrorKind.NONE), heartbeats=in_time, key=host_key()):
        rows = [*Doctor(mine, scenario(user_count=7)).findings()]
    said = [(row.verdict, row.result) for row in rows if row.check == "workers"]
    assert said[0] == (OK, f"scripted (host, pid 1): ssbench {__version__}, 4 users")
    assert (WARNING, "the workers can run 4 of 7 users") in said
    assert any("by 1 worker: median " in text and "slowest, scripted" in text for _, text in said)


def test_a_port_that_is_taken(store: MemoryStore, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = TransportConfig(None, other.getsockname()[1], 0, 0)
        rows = found(config(tmp_path, transport=taken))
    assert "is another ssbench-master running?" in rows["ports"][0].result


def test_no_worker_joins(store: MemoryStore, tmp_path: Path) -> None:
    waits = config(tmp_path, workers=None, worker_wait_s=0.0, starts_if_none=False)
    (row,) = found(waits)["workers"]
    assert row.verdict is Verdict.FAILED
    assert "0 workers joined" in row.result
    assert "firewalls" in row.advice
    assert "--zmq-bind-ip" in row.advice  # they could only be on this host


@pytest.mark.parametrize(("workers", "expected", "fails"), [(1, 1, False), (1, 2, True),
                                                            (None, None, False)])  # fmt: skip
def test_workers_that_the_run_starts_are_not_waited_for(
    workers: int | None, expected: int | None, fails: bool, store: MemoryStore, tmp_path: Path
) -> None:
    rows = found(config(tmp_path, workers=workers, expect_workers=expected, worker_wait_s=0.0))
    assert ("workers" in rows) == fails
    if fails:
        assert "0 of 1 workers joined" in rows["workers"][0].result


def test_a_worker_of_another_release_whose_clock_differs(
    store: MemoryStore, tmp_path: Path
) -> None:
    def late(heartbeat: Heartbeat) -> Heartbeat:
        return heartbeat._replace(worker_ns=time.perf_counter_ns(), wall_ns=time.time_ns() - 10**12)

    mine, ports = with_a_remote_worker(tmp_path)
    with ScriptedWorker(
        ports, uploading(ErrorKind.NONE), heartbeats=late, release="0.9", key=host_key()
    ):
        rows = found(mine)["workers"]
    release, clock = (row.result for row in rows)
    assert "ssbench 0.9" in release
    assert "install the same release on every host" in release
    assert "17 minutes behind" in clock


def test_workers_that_do_not_reach_the_store(store: MemoryStore, tmp_path: Path) -> None:
    mine, ports = with_a_remote_worker(tmp_path)
    with ScriptedWorker(ports, uploading(ErrorKind.CONNECT), key=host_key()):
        (row,) = found(mine)["workers"]
    assert row.verdict is Verdict.FAILED
    assert row.result.startswith("20 uploads by workers failed")
    assert "none succeeded of scripted" in row.result
    assert "firewalls" in row.advice


def test_hosts_that_ssh_does_not_reach_and_whose_workers_do_not_reach_the_master(
    store: MemoryStore, tmp_path: Path
) -> None:
    mine = config(
        tmp_path, workers=None, ssh_workers=parse_hosts("a:1,refused"),
        ssh_command=fake_ssh(tmp_path), ssh_worker_command=started(then="exit 1"),
    )  # fmt: skip
    rows = found(mine)
    (refused,) = rows["hosts"]
    assert refused.result == "refused: ssh failed: root@refused: Permission denied (publickey)."
    assert refused.advice.startswith("it accepts no key of yours: load one into ssh-agent")
    unreached, ended = rows["workers"]
    assert unreached.result.startswith("a: 1 of 1 worker did not join: they connect to 127.0.0.1")
    assert "does a firewall keep them from those ports" in unreached.advice
    assert "ended before it joined: ssh to a ended with status 1" in ended.result


def test_workers_of_each_host_can_run_all_users(store: MemoryStore, tmp_path: Path) -> None:
    """A host that fails, which is reported, is not reported once more as missing users."""
    given = tmp_path / "given"
    mine = config(
        tmp_path, workers=None, ssh_workers=parse_hosts("a:1,refused"),
        ssh_command=fake_ssh(tmp_path),
        ssh_worker_command=started(then=f"exec >{given}; echo").replace("echo; :", "echo"),
    )  # fmt: skip
    found(mine, scenario(user_count=6))
    assert "--concurrency 6 " in given.read_text()


def test_too_few_descriptors(store: MemoryStore, tmp_path: Path, few_files: int) -> None:
    rows = found(config(tmp_path), scenario(user_count=few_files))
    assert "ulimit -Hn" in rows["descriptors"][0].result


def test_results_that_cannot_be_written(store: MemoryStore, tmp_path: Path) -> None:
    (row,) = found(config(tmp_path), scenario(operation_count=10**15))["results"]
    assert "are free, and the results may need" in row.result
    (row,) = found(config(tmp_path, stats_file=str(tmp_path / "none" / "x.stat.gz")))["results"]
    assert row.advice == "put the results elsewhere with -s"
    (tmp_path / "x.stat.gz").touch()
    (row,) = found(config(tmp_path))["results"]
    assert "--force" in row.advice


def test_a_rate_that_nothing_here_can_send(store: MemoryStore, tmp_path: Path) -> None:
    wanted = scenario(rate=10**7, operation_count=10)
    row = found(config(tmp_path), wanted)["bottleneck"][0]
    assert "the scenario asks for 10,000,000" in row.result
