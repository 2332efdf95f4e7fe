"""A worker that has enough to do reads no jobs; ZeroMQ's heartbeats made it abort for that."""

from __future__ import annotations

from tests.e2e.commands import Commands

#: ZeroMQ's defect shows at the heartbeat after the connection broke: they came every 3 s.
QUIET_S = 7

MASTER = """
import os, time
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.sockets import Ports
wire = MasterTransport("127.0.0.1", Ports(0, 0, 0), None, pipe=2)
print(wire.ports.work, wire.ports.results, wire.ports.control, flush=True)
refused_s = None
while refused_s is None or time.monotonic() - refused_s < 1:
    if wire.send_jobs(b"x" * 1000):
        refused_s = time.monotonic()
    time.sleep(0.01)
os.kill(os.getpid(), 9)
"""

WORKER = """
import subprocess, sys, time
from ssbench.transport.sockets import Ports
from ssbench.transport.worker_transport import WorkerTransport
master = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
ports = Ports(*map(int, master.stdout.readline().split()))
wire = WorkerTransport("127.0.0.1", ports, None)
wire.open_work(2)
master.wait(60)
time.sleep(float(sys.argv[2]))
jobs = 0
while wire.receive():
    jobs += 1
print("took", jobs)
"""


def test_a_worker_with_a_full_queue_survives_its_master(commands: Commands) -> None:
    worker = commands.start(["-c", WORKER, MASTER, QUIET_S])
    ended = worker.wait()
    assert ended.status == 0, ended.err
    assert int(ended.out.split()[1]) > 0
