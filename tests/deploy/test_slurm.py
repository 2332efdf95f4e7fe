"""deploy/slurm on a real Slurm of two nodes, both this host, which the test starts.

It needs Debian's packages, and root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssbench import statfile
from ssbench.core.records import WorkerRecord
from ssbench.core.stats.run_stats import RunStats
from tests.servers.programs import path_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.program("slurmctld"),
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd and munged need root"),
]
ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 300
NODES = ("n1", "n2")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Slurm:
    """A context manager; ``environment`` is that of its commands."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environment = {
            **os.environ, "SLURM_CONF": str(place / "slurm.conf"), "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip
        self._stack = ExitStack()

    def __enter__(self) -> Slurm:
        with self._stack:
            self._start_munge()
            self._write_configuration()
            configured = "-D", "-f", self.place / "slurm.conf"
            self._start(path_of("slurmctld"), *configured)
            for node in NODES:
                self._start(path_of("slurmd"), *configured, "-N", node)
            self._wait_until_idle()
            self._stack = self._stack.pop_all()
        return self

    def _start_munge(self) -> None:
        user = pwd.getpwnam("munge")
        folder = self.place / "munge"
        folder.mkdir()
        (folder / "key").write_bytes(os.urandom(128))
        (folder / "key").chmod(0o600)
        for path in (folder, folder / "key"):
            os.chown(path, user.pw_uid, user.pw_gid)
        folder.chmod(0o755)
        self._start(
            "runuser", "-u", "munge", "--", path_of("munged"), "--foreground", "--force",
            f"--key-file={folder}/key", f"--socket={folder}/socket", f"--pid-file={folder}/pid",
            f"--log-file={folder}/log", f"--seed-file={folder}/seed",
        )  # fmt: skip
        self._until(lambda: (folder / "socket").exists())

    def _write_configuration(self) -> None:
        host = socket.gethostname().partition(".")[0]
        place = self.place
        for name in ("state", *NODES):
            (place / name).mkdir()
        (place / "slurm.conf").write_text(
            f"ClusterName=ssbench\nSlurmctldHost={host}(127.0.0.1)\n"
            "SlurmUser=root\nSlurmdUser=root\n"
            f"AuthType=auth/munge\nAuthInfo=socket={place}/munge/socket\n"
            f"CredType=cred/munge\nSlurmctldPort={free_port()}\n\n"
            f"StateSaveLocation={place}/state\nSlurmdSpoolDir={place}/%n\n"
            f"SlurmctldPidFile={place}/ctld.pid\nSlurmdPidFile={place}/%n.pid\n"
            f"SlurmctldLogFile={place}/ctld.log\nSlurmdLogFile={place}/%n.log\n"
            "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nReturnToService=2\n"
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nMpiDefault=none\n"
            + "".join(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1"
                f" Port={free_port()} CPUs=2\n"
                for node in NODES
            )
            + f"PartitionName=main Nodes={','.join(NODES)} Default=YES State=UP\n"
        )

    def _start(self, *command: object) -> None:
        log = self._stack.enter_context((self.place / "daemons.log").open("ab"))
        process = subprocess.Popen(
            [str(word) for word in command], env=self.environment, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

        def end() -> None:
            process.terminate()
            process.wait(60)

        self._stack.callback(end)

    def _wait_until_idle(self) -> None:
        def is_idle() -> bool:
            said = subprocess.run(
                ["sinfo", "-h", "-N", "-o", "%t"],
                env=self.environment,
                capture_output=True,
                text=True,
            )
            return said.stdout.split() == ["idle"] * len(NODES)

        self._until(is_idle)

    def _until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not true():
            logs = [path.read_text(errors="replace") for path in self.place.glob("*.log")]
            assert time.monotonic() < deadline, "\n".join(logs)
            time.sleep(0.1)

    def __exit__(self, *exc: object) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    place = Path("/tmp") / f"ssbench-slurm-{os.getpid()}"  # short, and others can enter it
    place.mkdir(mode=0o755)
    try:
        with Slurm(place) as made:
            yield made
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_batch_job_runs_a_scenario_with_workers_of_its_nodes(
    slurm: Slurm, tmp_path: Path, nodes: int
) -> None:
    ports = [f"--zmq-{name}-port" for name in ("work", "results", "control")]
    script = (ROOT / "deploy" / "slurm" / "ssbench.sbatch").read_text()
    ours = tmp_path / "ssbench.sbatch"
    # Other tests may have the usual ports.
    options = " ".join(f"{name} {free_port()}" for name in ports)
    ours.write_text(script.replace("--zmq-key-file", f"{options} --zmq-key-file"))
    said = subprocess.run(
        ["sbatch", "--wait", "--parsable", f"--nodes={nodes}", "--output=log", str(ours), "-f",
         "very_small", "--noop", "-u", "8", "-o", "2000"],
        env=slurm.environment, cwd=tmp_path, capture_output=True, text=True,
        timeout=LONGEST_S,
    )  # fmt: skip
    log = tmp_path / "log"
    assert said.returncode == 0, said.stderr + (log.read_text() if log.exists() else "")
    (folder,) = tmp_path.glob("ssbench-*[0-9]")
    assert folder.name == f"ssbench-{said.stdout.strip()}"
    assert not (folder / "ssbench.key").exists()
    assert folder.stat().st_mode & 0o777 == 0o700
    with statfile.read(str(folder / "run.stat.gz")) as reader:
        workers = [record for record in reader if isinstance(record, WorkerRecord)]
    assert len(workers) == 2, "one for each CPU of the only node, or of the second"
    with statfile.read(str(folder / "run.stat.gz")) as reader:
        assert sum(RunStats.of(reader).requests_per_worker().values()) == 2000


def test_workers_end_when_the_master_does_not_start(slurm: Slurm, tmp_path: Path) -> None:
    script = ROOT / "deploy" / "slurm" / "ssbench.sbatch"
    failed = subprocess.run(
        ["sbatch", "--wait", "--nodes=2", "--output=log", script, "-f", "no-such-scenario"],
        env=slurm.environment, cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST_S,
    )  # fmt: skip
    assert failed.returncode == 2, "the master's status"
