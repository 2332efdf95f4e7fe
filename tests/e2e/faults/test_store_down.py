"""Stores that fail, in part or altogether."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ssbench.core.errors import ExitStatus, most_failed
from ssbench.core.model import ErrorKind
from ssbench.embedded import EmbeddedSwift
from ssbench.embedded.plan import PIPELINE
from tests.e2e.commands import Account, Commands, login, requests, rows_of, until
from tests.e2e.faults.matrix import Row
from tests.servers.four_process import FourProcessSwift

#: A Swift with container_quotas, which embedded ones have no need of.
QUOTAS = {
    "pipeline:main": {"pipeline": PIPELINE.replace(" copy ", " container_quotas copy ")},
    "filter:container_quotas": {"use": "egg:swift#container_quotas"},
}

#: An address of a network that leads nowhere would take its time; a port that nobody has doesn't.
NOBODY = "http://127.0.0.1:9"


@pytest.mark.fault("store: its object server is killed (real Swift)")
def test_without_object_server_operations_are_retried_and_fail(
    commands: Commands, four_process_swift: FourProcessSwift, row: Row
) -> None:
    swift = four_process_swift
    path = commands.scenario(crud_profile=[0, 1, 0, 0], user_count=4, container_base="down")
    started = commands.start_run(
        "-f", path, "-r", 600, "--think-time", 0.1, "--retries", 2, *login(swift), workers=1
    )
    until("reads", lambda: any(r.method == "GET" and r.object for r in requests(swift, "down")))
    until("results", lambda: started.on_disk("READ") > 4)
    swift.kill("object")
    until("refusals", lambda: sum(r.status == 503 for r in requests(swift, "down")) > 60)
    started.interrupt()
    ended = started.wait()
    count, errors, retries = ended.counted()
    ended.fine(ExitStatus.FAILED if most_failed(count, errors) else ExitStatus.INTERRUPTED)
    stats = ended.stats
    refused = [r for r in requests(swift, "down") if r.object and r.status == 503]
    assert count > 0
    assert errors > 0
    assert len(refused) == pytest.approx(errors * 3, abs=2 * 4)
    assert retries == pytest.approx(errors * 2, abs=4)
    kinds = {key: error.count for key, error in stats.errors.items()}
    assert kinds == {(ErrorKind.STATUS, 503): errors}
    example = stats.errors[ErrorKind.STATUS, 503].example
    assert example.transaction_id.decode() in {r.transaction for r in refused}
    assert example.transaction_id.decode() in ended.out
    assert re.search(rf"503.*\b{errors}\b|\b{errors}\b.*503", ended.out), ended.out
    row.accounted(stats)
    row.saw(f"{errors} status 503, each tried three times, as the server's log has it")


@pytest.mark.fault("store: its object server is killed, and comes back (real Swift)")
def test_an_outage_within_the_retries_fails_no_operation(
    commands: Commands, four_process_swift: FourProcessSwift, row: Row
) -> None:
    swift = four_process_swift
    path = commands.scenario(user_count=4, container_base="outage")
    started = commands.start_run("-f", path, "-o", "120", *login(swift), workers=1)
    until("reads", lambda: any(r.method == "GET" and r.object for r in requests(swift, "outage")))
    swift.kill("object")
    until("refusals", lambda: any(r.status == 503 for r in requests(swift, "outage")))
    swift.revive("object")
    ended = started.wait().fine()
    count, errors, retries = ended.counted()
    assert (count, errors) == (120, 0)
    assert retries > 0
    assert Account(swift).created("outage", ended.stats.run.run_id) == []
    row.accounted(ended.stats)
    row.saw(f"no operation failed; {retries} retries")


@pytest.mark.fault("store: no object server while it is filled (real Swift)")
def test_without_initial_objects_the_run_is_skipped_and_reported(
    commands: Commands, four_process_swift: FourProcessSwift, row: Row
) -> None:
    swift = four_process_swift
    path = commands.scenario(crud_profile=[0, 1, 0, 0], container_base="gone")
    swift.kill("object")
    ended = commands.run("-f", path, "--retries", "0", *login(swift), workers=1).fine(1)
    assert ended.counted() == (0, 0, 0)
    assert "no initial object could be uploaded" in ended.out
    assert "503" in ended.out
    assert [r for r in requests(swift, "gone") if r.method == "GET"] == []
    row.accounted(ended.stats)
    row.saw("status 1, a report that says it")


@pytest.mark.fault("store: every upload is over the quota (real Swift)")
def test_a_run_in_which_every_operation_fails_has_a_report_and_status_1(
    commands: Commands, fresh_swift: Callable[..., EmbeddedSwift], row: Row
) -> None:
    swift = fresh_swift(proxy_conf=QUOTAS)
    keys = {"container_base": "full", "container_count": 1}
    reads = commands.scenario(**keys, crud_profile=[0, 1, 0, 0])
    commands.run("-f", reads, "-o", 1, *login(swift), workers=1).fine()
    Account(swift)("POST", "full_000000", X_Container_Meta_Quota_Bytes="1")
    creates = commands.scenario(**keys, crud_profile=[1, 0, 0, 0], operation_count=20)
    ended = commands.run("-f", creates, *login(swift), workers=1).fine(1)
    assert ended.counted() == (0, 20, 0)
    kinds = {key: error.count for key, error in ended.stats.errors.items()}
    assert kinds == {(ErrorKind.STATUS, 413): 20}
    assert {row["status"] for row in rows_of(ended.results)} == {413}
    row.accounted(ended.stats)
    row.saw("20 status 413; status 1")


@pytest.mark.fault("authentication: no server listens there")
def test_no_server_at_all(commands: Commands, row: Row) -> None:
    path = commands.scenario()
    line = commands.call_run(
        "-f", path, "-A", f"{NOBODY}/auth/v1.0", "-U", "test:tester", "-K", "testing"
    ).one_line()
    assert NOBODY in line
    assert "refused" in line
    row.saw(f"status 1: {line.partition(': ')[2]}")


@pytest.mark.fault("store: no server listens at the storage URL")
def test_no_server_at_the_storage_url(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    path = commands.scenario(container_base="elsewhere")
    options = [*login(embedded_swift), "-S", f"{NOBODY}/v1/AUTH_test"]
    line = commands.run("-f", path, *options, workers=1).one_line()
    assert "127.0.0.1:9" in line
    assert "refused" in line
    assert requests(embedded_swift, "elsewhere") == []
    row.saw(f"status 1: {line.partition(': ')[2]}")


@pytest.mark.fault("authentication: a wrong key")
def test_a_wrong_key(commands: Commands, embedded_swift: EmbeddedSwift, row: Row) -> None:
    path = commands.scenario(container_base="wrongkey")
    options = ["-A", embedded_swift.auth_url, "-U", embedded_swift.user, "-K", "open sesame"]
    line = commands.call_run("-f", path, *options).one_line()
    assert "user or key refused" in line
    assert "sesame" not in line
    assert requests(embedded_swift, "wrongkey") == []
    row.saw(f"status 1: {line.partition(': ')[2]}")


@pytest.mark.fault("store: a user who may not write")
def test_a_user_without_write_permission(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    path = commands.scenario(container_base="forbidden")
    options = ["-A", embedded_swift.auth_url, "-U", "test:tester3", "-K", "testing3"]
    line = commands.run("-f", path, *options, workers=1).one_line()
    assert "forbidden_0000" in line
    assert "403" in line
    row.saw(f"status 1: {line.partition(': ')[2]}")
