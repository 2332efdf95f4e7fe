"""doctor with a real Swift, and workers in processes of their own."""

from __future__ import annotations

import re

from ssbench.core.errors import ExitStatus
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Commands, free_ports, login, until
from tests.e2e.faults.hostile import login_at
from tests.fakes.hostile_swift import HostileSwift


def test_all_is_well_with_a_swift_and_a_worker(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    key = commands.place / "key"
    commands.master("make-key", key).wait().fine()
    joined = [*free_ports(), "--zmq-key-file", key]
    commands.worker(*joined, "-c", 20, "w")
    words = ["doctor", *login(embedded_swift), "-f", commands.scenario(), "--expect-workers", 1]
    ended = commands.master(*words, *joined, "--zmq-bind-ip", "127.0.0.1").wait()
    (network,) = ended.rows("network")
    found = re.search(r"HEAD ([\d.]+) (µs|ms|s) \(median .* by one connection", network)
    assert found, network
    # A busy host may take longer for a response than doctor finds well.
    slow = found[2] == "s" or (found[2] == "ms" and float(found[1]) > 50)
    ended.fine(ExitStatus.FAILED if slow else ExitStatus.OK)
    wrong = re.findall(r"^(?:warning|failed) +(\S+)", ended.out, re.MULTILINE)
    assert wrong == ["network"] * slow
    assert (ended.out.splitlines()[-1] == "All is well.") is not slow
    assert "PUT" in ended.rows("role")[0]
    worker, uploads = ended.rows("workers")
    assert re.match(r"ok: uploads of 4\.1 kB by 1 worker: median .* by the slowest, w ", uploads)
    assert re.match(r"ok: w \(.*\): ssbench \S+, 20 users, \d+ cores?$", worker)
    words = ["cleanup-containers", *login(embedded_swift), "-b", "ssbench_doctor"]
    assert "No containers to delete" in commands.master(*words).wait().fine(0).out


def test_ctrl_c_leaves_nothing_in_the_store(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    words = ["doctor", *login(embedded_swift), "--worker-wait", 60, "--expect-workers", 1]
    master = commands.master(*words, *free_ports())
    until("it uploads a large object", lambda: "role" in master.out.read_text())
    master.interrupt()
    assert "interrupted by SIGINT" in master.wait().one_line(5)
    words = ["cleanup-containers", *login(embedded_swift), "-b", "ssbench_doctor"]
    assert "No containers to delete" in commands.master(*words).wait().fine(0).out


def test_a_wrong_password_and_a_worker_with_another_key(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    key, other = commands.place / "key", commands.place / "other"
    for path in (key, other):
        commands.master("make-key", path).wait().fine()
    ports = free_ports()
    worker = commands.worker("-v", *ports, "--zmq-key-file", other)
    worker.wait_for("master expected at")
    words = ["doctor", "-A", embedded_swift.auth_url, "-U", embedded_swift.user, "-K", "wr0ng"]
    mine = [*ports, "--zmq-key-file", key, "--zmq-bind-ip", "127.0.0.1", "--worker-wait", 5]
    ended = commands.master(*words, *mine, "--expect-workers", 1).wait().fine(1)
    (refused,) = ended.rows("login")
    assert refused.startswith("failed: ")
    assert "user or key refused (401): is the user ACCOUNT:USER" in refused
    workers = " ".join(ended.rows("workers"))
    assert "0 of 1 workers joined" in workers
    assert "another key" in workers + ended.err
    assert "wr0ng" not in ended.out + ended.err


def test_a_run_warns_if_its_initial_objects_exceed_the_quota(commands: Commands) -> None:
    with HostileSwift({}) as swift:  # which behaves
        swift.account_headers["X-Account-Meta-Quota-Bytes"] = "10"
        words = ["-f", commands.scenario(), *login_at(swift)]
        ended = commands.run(*words, workers=1).fine(0)
    assert re.search(
        r"WARNING: the initial objects take .*, and the store has 10 B left", ended.err
    )
