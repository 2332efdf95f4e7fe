"""Several identities: users of accounts of their own in Swift, access keys of buckets in S3."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.embedded import EmbeddedSwift
from ssbench.embedded.plan import PIPELINE
from tests.e2e.commands import Commands, Ended, free_ports, until
from tests.e2e.test_secrets import Watcher, nowhere
from tests.servers.s3 import VersityGW
from tests.servers.swift import swift_options

ANN, BOB = "Kx7-key-of-ann-of-acme", "Kx7-key-of-bob-of-beta"
CEE = "Kx7-key-of-cee-of-beta"
THREE = [
    {"user": "acme:ann", "key": ANN},
    {"user": "beta:bob", "key": BOB, "name": "bob"},
    {"user": "beta:cee", "key": CEE},
]
NAMES = ["acme:ann", "bob", "beta:cee"]
MIX = {
    "create": 4, "read": 4, "update": 1, "delete": 1, "head": 1, "post": 1, "list": 1, "copy": 1,
    "range_read": 1, "bulk_delete": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def swift() -> Iterator[EmbeddedSwift]:
    """Two accounts, one of them with two users."""
    users = {
        "user_acme_ann": f"{ANN} .admin",
        "user_beta_bob": f"{BOB} .admin",
        "user_beta_cee": f"{CEE} .admin",
    }
    with EmbeddedSwift(swift_options(proxy_conf={"filter:tempauth": users})) as server:
        yield server


def identities(commands: Commands, entries: Sequence[Mapping[str, str]] = THREE) -> Path:
    path = commands.place / "identities.key"
    path.write_text(json.dumps({"identities": entries}))
    path.chmod(0o600)
    return path


def scenario(commands: Commands, base: str, **keys: object) -> Path:
    given = {
        "operations": MIX, "container_base": base, "container_count": 4,
        "initial_files": {"tiny": 12}, "operation_count": 120, "user_count": 6, **keys,
        **({} if "operations" in keys else {"bulk_count": 2}),
    }  # fmt: skip
    return commands.scenario(**given)


def figures(commands: Commands, ended: Ended, *words: str) -> dict[str, tuple[int, int]]:
    """Operations and errors of each identity, in the report as JSON."""
    report = commands.call("report-scenario", ended.results, "--json", *words).fine()
    rows = json.loads(report.out)["by_identity"]
    return {row["identity"]: (row["count"], row["errors"]) for row in rows}


def test_users_of_several_accounts(commands: Commands, swift: EmbeddedSwift) -> None:
    """Each has its containers and objects; nothing of it stays, and no key is anywhere."""
    access = ["-A", swift.auth_url, "--identities", identities(commands)]
    path = scenario(commands, "several")
    live = commands.place / "live.json"
    started = commands.start_run("-f", path, *access, "--verify", "--live-json", live, program=True)
    with Watcher(started) as watcher:
        run = started.wait()
    run.fine()
    assert "IDENTITIES" in run.out
    assert re.search(r"^Store: .*, container base several, 3 identities$", run.out, re.M)
    assert not [each for each in (ANN, BOB, CEE) if any(each in text for text in watcher.public)]
    assert not [each for each in (ANN, BOB, CEE) if any(each in text for text in watcher.inherited)]
    found = figures(commands, run)
    assert list(found) == NAMES
    assert all(count > 20 and not errors for count, errors in found.values())
    shown = [json.loads(line) for line in live.read_text().splitlines()]
    (last,) = [each for each in shown if each["phase"] == "run" and each["over"]]
    counted = {name: each["count"] for name, each in last["identities"].items()}
    assert counted == {name: count for name, (count, _) in found.items()}
    only = figures(commands, run, "--identity", "bob")
    assert only == {"bob": found["bob"]}
    assert "of such an identity; it has: acme:ann, bob, beta:cee" in commands.call(
        "report-scenario", run.results, "--identity", "dan"
    ).one_line(ExitStatus.USAGE)
    again = commands.run("-f", path, *access).fine()
    compared = commands.call("compare", run.results, again.results).fine()
    assert all(name in compared.out for name in NAMES)
    cleaned = commands.call("cleanup-containers", "-b", "several", *access).fine()
    # Six containers, two of each identity; the users of beta see those of each other.
    assert re.findall(r"^Identity (.*):\n(?:.*\n)*?.*and (\d) containers", cleaned.out, re.M) == [
        ("acme:ann", "2"), ("bob", "4"),
    ]  # fmt: skip
    assert "No containers to delete" in cleaned.out
    nowhere(commands.place, ANN, BOB, CEE)


def test_doctor_asks_the_store_as_each(commands: Commands, swift: EmbeddedSwift) -> None:
    """Each user of two accounts, and two workers, upload what is theirs; nothing of it stays."""
    access = ["-A", swift.auth_url, "--identities", identities(commands)]
    joined = free_ports()
    key = commands.place / "doctor.key"
    commands.master("make-key", key).wait().fine()
    joined += ["--zmq-key-file", key]
    commands.worker(*joined, "-c", 20, "w")
    words = ["doctor", *access, "--expect-workers", 1, *joined, "--zmq-bind-ip", "127.0.0.1"]
    ended = commands.master(*words).wait()
    assert "and 1 more, as 3 identities" in " ".join(ended.rows("login"))
    assert "as each of 3 identities" in " ".join(ended.rows("role"))
    assert not re.findall(r"^failed .*", ended.out, re.M)
    assert re.match(r"ok: uploads of 4\.1 kB by 1 worker", ended.rows("workers")[-1])
    cleaned = commands.call("cleanup-containers", "-b", "ssbench_doctor", *access).fine()
    assert cleaned.out.count("No containers to delete") == 3


def test_doctor_names_the_one_that_may_not_upload(commands: Commands) -> None:
    users = {"user_acme_ann": f"{ANN} .admin", "user_beta_bob": BOB}  # who is no admin
    with EmbeddedSwift(swift_options(proxy_conf={"filter:tempauth": users})) as server:
        access = ["-A", server.auth_url, "--identities", identities(commands, THREE[:2])]
        ended = commands.call("doctor", *access, "--workers", "1").fine(ExitStatus.FAILED)
        cleaned = commands.call(
            "cleanup-containers", "-b", "ssbench_doctor", "-A", server.auth_url,
            "-U", "acme:ann", "-K", ANN,
        )  # fmt: skip
    assert 'could not be made: identity "bob"' in " ".join(ended.rows("role"))
    assert "No containers to delete" in cleaned.fine().out


def test_a_clean_up_that_is_resumed(commands: Commands, swift: EmbeddedSwift) -> None:
    access = ["-A", swift.auth_url, "--identities", identities(commands)]
    path = scenario(commands, "resumed")
    run = commands.run("-f", path, *access, "--keep-objects").fine()
    without = ["-A", swift.auth_url, "-U", "acme:ann", "-K", ANN]
    resume = ["cleanup-containers", "--resume-cleanup", run.results]
    assert "identities acme:ann, bob, beta:cee" in commands.call(*resume, *without).one_line(
        ExitStatus.USAGE
    )
    gone = identities(commands, [THREE[0], {"user": "bob", "key": "Kx7-another"}, THREE[2]])
    some = commands.call(*resume, "-A", swift.auth_url, "--identities", gone)
    deleted = r"Deleted \d+ objects of run"
    assert len(re.findall(deleted, some.fine(ExitStatus.FAILED).out)) == 2
    left = "what the run left in its containers resumed_000001, resumed_000004 stays"
    assert re.search(rf"^ssbench-master: identity bob: .*; {left}$", some.err, re.M)
    access = ["-A", swift.auth_url, "--identities", identities(commands)]
    cleaned = commands.call(*resume, *access).fine()
    assert len(re.findall(deleted, cleaned.out)) == 1
    again = commands.call(*resume, *access).fine()
    assert again.out.count("Nothing was left of run") == 3
    commands.call("cleanup-containers", "-b", "resumed", *access).fine()


def test_one_whose_key_is_wrong_is_named(commands: Commands, swift: EmbeddedSwift) -> None:
    wrong = [*THREE[:2], {"user": "beta:cee", "key": "Kx7-another"}]
    path = identities(commands, wrong)
    path.chmod(0o644)
    access = ["-A", swift.auth_url, "--identities", path]
    run = commands.call_run("-f", scenario(commands, "wrong"), *access)
    assert 'identity "beta:cee": ' in run.one_line(ExitStatus.FAILED)
    assert "401" in run.err
    cleaned = commands.call("cleanup-containers", "-b", "wrong", *access).fine(ExitStatus.FAILED)
    assert "chmod 600" in cleaned.err
    assert "identity beta:cee: " in cleaned.err
    assert cleaned.out.count("No containers to delete") == 2
    doctor = commands.call("doctor", *access, "--workers", "1")
    assert 'identity "beta:cee"' in doctor.out


def test_a_full_account_shows_at_its_user(commands: Commands) -> None:
    """Ann's account may hold no more, so her uploads fail; all else succeeds."""
    from swiftclient import get_auth, post_account  # loads slowly

    conf = {
        "pipeline:main": {"pipeline": PIPELINE.replace("tempauth", "tempauth account_quotas")},
        "filter:account_quotas": {"use": "egg:swift#account_quotas"},
        "filter:tempauth": {"user_acme_ann": f"{ANN} .admin", "user_beta_bob": f"{BOB} .admin"},
    }
    with EmbeddedSwift(swift_options(proxy_conf=conf)) as server:
        access = ["-A", server.auth_url, "--identities", identities(commands, THREE[:2])]
        path = scenario(commands, "full", operations={"create": 1, "read": 4})
        commands.run("-f", path, *access).fine()
        _, token = get_auth(server.auth_url, "admin:admin", "admin")
        url = server.storage_url.replace("AUTH_test", "AUTH_acme")
        post_account(url, token, {"X-Account-Meta-Quota-Bytes": "0"})
        run = commands.run("-f", path, *access).fine()
        found = figures(commands, run)
    (_, failed), (_, none) = found["acme:ann"], found["bob"]
    assert failed > 5
    assert none == 0
    assert 'identity "acme:ann": ' in run.out
    assert "413" in run.out
    assert 'identity "bob"' not in run.out


@pytest.mark.program("versitygw")
@pytest.mark.parametrize("several", [True, False], ids=["several", "one"])
def test_a_key_that_is_deleted_delays_nobody(commands: Commands, several: bool) -> None:
    """Its operations fail at once, in the run and at the clean-up; the others are as before."""
    entries = [
        {"access_key": "AKANN0123", "secret_key": ANN},
        {"access_key": "AKBOB0123", "secret_key": BOB, "name": "bob"},
    ]
    with VersityGW() as server:
        for each in entries:
            server.make_user(each["access_key"], each["secret_key"])
        access = [*server.options]
        environment = {"AWS_ACCESS_KEY_ID": "AKBOB0123", "AWS_SECRET_ACCESS_KEY": BOB}
        if several:
            access, environment = [*access, "--identities", identities(commands, entries)], {}
        path = scenario(commands, "gone", operations={"create": 1, "read": 4}, operation_count=600)
        started = commands.start_run("-f", path, *access, "--rate", 150, environment=environment)
        until("operations in the stat file", lambda: started.on_disk("READ"))
        server.delete_user("AKBOB0123")
        run = started.wait().fine(ExitStatus.OK if several else ExitStatus.FAILED)
        left = server.contents()
    assert run.stats.total().renewals == 0
    assert run.stats.total().count + run.stats.total().errors == 600
    rejected = (
        "credentials of 1 identity; there are no other credentials, so operations fail .*: bob"
    )
    if several:
        found = figures(commands, run)
        assert found["AKANN0123"][1] == 0
        assert found["bob"][1] > 0
        hers = [*left["gone-000000"], *left["gone-000002"]]
        kept = [name for name in hers if name.startswith("tiny_")]
        assert len(kept) == 6, "her initial objects; all others were deleted"
    else:
        rejected = (
            "InvalidAccessKeyId: .*there are no other credentials, so operations fail at once"
        )
    assert len(re.findall(rejected, run.err)) == 1
    assert len(re.findall("could not be deleted", run.err)) == 1


@pytest.mark.program("versitygw")
def test_access_keys_with_buckets_of_their_own(commands: Commands) -> None:
    entries = [
        {"access_key": "AKANN0123", "secret_key": ANN},
        {"access_key": "AKBOB0123", "secret_key": BOB, "name": "bob"},
    ]
    with VersityGW() as server:
        for each in entries:
            server.make_user(each["access_key"], each["secret_key"])
        access = [*server.options, "--identities", identities(commands, entries)]
        run = commands.run("-f", scenario(commands, "keys"), *access, "--verify").fine()
        found = figures(commands, run)
        assert list(found) == ["AKANN0123", "bob"]
        assert all(count > 30 and not errors for count, errors in found.values())
        assert all(name.startswith("keys-") for name in server.contents())
        assert len(server.contents()) == 4
        client = server.client()  # bob's first bucket, not that of the first key
        enabled = {"Status": "Enabled"}
        client.put_bucket_versioning(Bucket="keys-000001", VersioningConfiguration=enabled)
        commands.run("-f", scenario(commands, "keys"), *access).fine()
        found = client.list_object_versions(Bucket="keys-000001")
        versions = [*found.get("Versions", ()), *found.get("DeleteMarkers", ())]
        assert not [each["Key"] for each in versions if each["Key"].count("_") > 1]
        commands.call("cleanup-containers", "-b", "keys", *access).fine()
        assert not server.contents()
    nowhere(commands.place, ANN, BOB)
