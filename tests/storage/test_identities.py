"""Several identities: their file, their logins, and their drivers as one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ssbench.core.errors import AuthError, RejectedError, StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.operations import LIST, READ
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.base import Access, ContainerEntry
from ssbench.storage.identities import (
    IdentitiesAdmin,
    IdentitiesLogin,
    IdentitiesStorage,
    parse_identities,
)
from ssbench.storage.options import Identity, StoreOptions
from ssbench.storage.registry import open_provider, with_identities
from tests.fakes.terminal import must_be_line

KEYS = {"user": "user", "os_username": "os_username", "key": "key"}
USERS = ("user", "os_username")
SECRET = "Zq3-secret"
FILES = [
    b'{"identities": [{"user": "a:b", "key": "c"}, {"os_username": "d", "name": "e"}]}',
    b'[[identities]]\nuser = "a:b"\nkey = "c"\n\n[[identities]]\nuser = "d"\n',
]


def parsed(text: bytes) -> tuple[Identity, ...]:
    return parse_identities(text, "file", KEYS, USERS)


def decoded(data: bytes) -> None:
    """For tests/test_decoders.py: each has a name of its own, that can be shown."""
    found = parsed(data)
    assert len({each.name for each in found}) == len(found) >= 2
    for each in found:
        must_be_line(repr(each))


def test_json_and_toml() -> None:
    one, two = parsed(FILES[0])
    assert (one.name, one.given) == ("a:b", {"user": "a:b", "key": "c"})
    assert (two.name, two.given) == ("e", {"os_username": "d"})
    assert [each.name for each in parsed(FILES[1])] == ["a:b", "d"]


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ("x", "a list of identities"),
        ([{"user": "a"}], "1 in the list; from 2 to 1000"),
        ([{"user": "a"}, {"user": "a"}], 'identities[1]: the name "a" is there twice'),
        ([{"user": "a"}, SECRET], "identities[1]: a string is no identity"),
        ([{"user": "a"}, {"key": SECRET}], "identities[1]: nothing says who it is; give it user"),
        ([{"user": "a"}, {}], "identities[1]: nothing says who it is"),
        ([{"user": "a"}, {"user": "b", "name": " "}], "identities[1].name: not a text"),
        ([{"user": "a"}, {"user": "b", "kye": SECRET}], "identities[1].kye: no such key; one of"),
        ([{"user": "a"}, {"user": "b", "key": [SECRET]}], "identities[1].key: not a text"),
        ([{"user": "a"}, {"user": "b", "key": ""}], "identities[1].key: not a text"),
        ([{"user": "a"}, {"user": "b", "name": "n" * 101}], "identities[1].name: too long"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_without_a_value(entries: Any, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(json.dumps({"identities": entries}).encode())
    assert str(caught.value).startswith("--identities file: ")
    assert what in str(caught.value)
    assert SECRET not in str(caught.value)


def test_an_entry_that_is_not_valid_has_no_further_error() -> None:
    with pytest.raises(UsageError) as caught:
        parsed(b'{"identities": [1, "x", {"user": 1}]}')
    found = [line.partition(": ")[2].split(":")[0] for line in str(caught.value).splitlines()]
    assert found == ["identities[0]", "identities[1]", "identities[2].user"]


def test_an_empty_file_is_no_scenario() -> None:
    with pytest.raises(UsageError, match="1:1: the file is empty; an object"):
        parsed(b"")


def options(tmp_path: Path, driver: str = "swift", **more: Any) -> StoreOptions:
    path = tmp_path / "file"
    entries = [{"user": "a", "key": SECRET}, {"user": "b", "key": SECRET}]
    path.write_text(json.dumps({"identities": entries}))
    return StoreOptions(driver, identities=str(path), **more)


def test_they_replace_the_user_of_the_environment_and_exclude_that_of_the_command_line(
    tmp_path: Path,
) -> None:
    environ = {"ST_AUTH": "http://h/", "ST_USER": "u", "ST_KEY": "k", "OS_PASSWORD": "p"}
    found = with_identities(options(tmp_path, environ=environ))
    assert dict(found.environ) == {"ST_AUTH": "http://h/"}
    assert SECRET not in repr(found)
    assert "chmod 600" in found.tenant_notes[0]
    (tmp_path / "file").chmod(0o600)
    with pytest.raises(UsageError, match="leave out -U and -K"):
        with_identities(options(tmp_path, given={"user": "u", "key": "k"}))


@pytest.mark.parametrize("driver", ["webdav", "file", "noop"])
def test_other_stores_have_none(driver: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f'"{driver}" has no identities; swift and s3 have them'):
        with_identities(options(tmp_path, driver))


class Provider:
    """Issues ``NAME-1``, ``NAME-2`` and so on."""

    notes: Sequence[str] = ("same",)
    where = "http://h/"

    def __init__(self, options: StoreOptions) -> None:
        self._user = options.given["user"]
        self.issued = 0
        self.fails = False
        self.fault = AuthError

    def log_in(self) -> Access:
        url = "http://h/both" if self._user == "c" else f"http://h/{self._user}"
        return Access({"urls": (url,), "region": "r"}, self.renew(), self._user == "b")

    def renew(self) -> Credentials:
        if self.fails:
            raise self.fault("refused")
        self.issued += 1
        expires = {"a": None, "b": 20.0, "c": 10.0}[self._user]
        return Credentials(self.issued, expires, {"token": f"{self._user}-{self.issued}"})


def login(names: str = "abc") -> tuple[IdentitiesLogin, list[Provider]]:
    made: list[Provider] = []

    def open_one(options: StoreOptions) -> Provider:
        made.append(Provider(options))
        return made[-1]

    tenants = tuple(Identity(name.upper(), {"user": name}) for name in names)
    return IdentitiesLogin(StoreOptions(tenants=tenants), open_one), made


def tokens(credentials: Credentials) -> list[str]:
    return [each["token"] for each in credentials.payload["identities"]]


def test_all_log_in_and_are_renewed_together() -> None:
    both, providers = login()
    access = both.log_in()
    assert both.notes == ["same"]
    assert access.password_equivalent
    assert access.credentials.expires_at == 10.0
    assert tokens(access.credentials) == ["a-1", "b-1", "c-1"]
    assert access.settings["urls"] == ("http://h/a", "http://h/b", "http://h/both")
    providers[1].fails = True
    renewed = both.renew()
    assert tokens(renewed) == ["a-2", "b-1", "c-2"]
    assert renewed.serial == access.credentials.serial + 1
    for each in providers:
        each.fails = True
    with pytest.raises(AuthError, match=r'^identity "A": refused$') as caught:
        both.renew()
    assert type(caught.value) is AuthError
    for each in providers:
        each.fault = RejectedError
        with pytest.raises(RejectedError) if each is providers[2] else nullcontext():
            renewed = both.renew()
    assert (tokens(renewed), renewed.rejected) == (["a-2", "b-1", "c-2"], (1, 2))


def test_a_login_that_fails_is_named() -> None:
    both, providers = login()
    providers[1].fails = providers[2].fails = True
    with pytest.raises(AuthError, match=r'^identity "B": refused; 1 more identity failed$'):
        both.log_in()
    providers[0].fails = True
    with pytest.raises(AuthError, match=r'^identity "A": refused; 2 more identities failed$'):
        both.log_in()


def test_what_an_identity_lacks_is_said_of_its_file() -> None:
    tenants = (Identity("ann", {"user": "acme:ann"}), Identity("bob", {"user": "b", "key": "k"}))
    mine = StoreOptions("swift", given={"auth": "http://h/auth/v1.0"}, tenants=tenants)
    wanted = r'^identity "ann": credentials are incomplete: .* missing \(.* file of --identities\)$'
    with pytest.raises(UsageError, match=wanted):
        open_provider(mine)


class Driver:
    """Says by its Timing which URL and address it asked, as it numbers them: always the first."""

    concurrency = "greenlets"
    credentials_serial = 1

    def __init__(self, name: str) -> None:
        self.name = name
        self.addresses = [f"address of {name}"]
        self.token = ""
        self.connected = 0
        self.actions = {READ: self._act, LIST: self._act}

    def _act(self, job: Job, deadline_ns: int) -> Timing:
        timing = Timing(1, 1, 1, 0, 200, self.name.encode(), address=1, parts=(1, 0, 0, 9))
        if self.token == "bad":
            raise StorageError(ErrorKind.STATUS, "forbidden", status=403, timing=timing)
        return timing

    def connect(self, count: int) -> None:
        self.connected = count

    def set_credentials(self, credentials: Credentials) -> None:
        self.token = credentials.payload["token"]


def settings(count: int = 3) -> StorageSettings:
    own = [(str(at), {"urls": [f"http://h/{at % 2}"]}) for at in range(count)]
    return StorageSettings(store={"urls": ["http://h/0", "http://h/1"], "identities": own})


def job(operation: int, number: int, size_class: int = 0) -> Job:
    return Job(1, operation, size_class, number, 0, 0)


def test_each_operation_goes_to_the_owner_of_its_container() -> None:
    drivers = [Driver(str(at)) for at in range(3)]
    storage = IdentitiesStorage(settings(), drivers)  # type: ignore[arg-type]
    storage.connect(7)
    assert [each.connected for each in drivers] == [3, 3, 3]
    found = [storage.actions[READ](job(READ, 4, at), 0) for at in (0, 1, 2)]
    # Container (4 + 7 * class) of the run, and so identity 1, 2, 0.
    assert [each.transaction_id for each in found] == [b"1", b"2", b"0"]
    assert [each.url for each in found] == [1, 0, 0]
    assert [each.parts for each in found] == [(1, 0, 1, 9), (1, 0, 0, 9), (1, 0, 0, 9)]
    assert [storage.addresses[each.address - 1] for each in found] == [
        "address of 1", "address of 2", "address of 0",
    ]  # fmt: skip
    assert storage.actions[LIST](job(LIST, 5, 1), 0).transaction_id == b"2"


def test_errors_name_the_identity() -> None:
    drivers = [Driver(str(at)) for at in range(3)]
    storage = IdentitiesStorage(settings(), drivers)  # type: ignore[arg-type]
    payload = {"identities": [{"token": "good"}, {"token": "bad"}, {"token": "good"}]}
    storage.set_credentials(Credentials(2, None, payload))
    assert [each.token for each in drivers] == ["good", "bad", "good"]
    with pytest.raises(StorageError) as caught:
        storage.actions[READ](job(READ, 1), 0)
    error = caught.value
    assert error.detail == 'identity "1": forbidden'
    assert error.identity == 2
    assert error.url == 1
    assert error.timing
    assert error.timing.url == 1
    assert storage.addresses[error.address - 1] == "address of 1"


class Admin:
    concurrency = "greenlets"

    def __init__(self, names: Sequence[str]) -> None:
        self._names = sorted(names)

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        after = [name for name in self._names if name > max(marker, prefix)]
        return [ContainerEntry(name, len(self._names), 0) for name in after[:limit]]

    def owns(self, container: str) -> bool:
        return container in self._names


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_a_listing_has_the_containers_of_their_owners(limit: int) -> None:
    """Whether identities share an account or not, in pages of any length."""
    names = [f"ssbench_{at:06d}" for at in range(6)]
    for own in (
        [names[0::3], names[1::3], names[2::3]],
        [names, names, names],
        [names[:4], [], names[2:]],
    ):
        admin = IdentitiesAdmin(settings(), [Admin(each) for each in own])  # type: ignore[misc]
        wanted = [name for at, name in enumerate(names) if name in own[at % 3]]
        found: list[str] = []
        while page := admin.list_containers("ssbench_", found[-1] if found else "", limit):
            found += [entry.name for entry in page]
        assert found == wanted
        owns: Mapping[str, bool] = {name: admin.owns(name) for name in names}  # type: ignore[attr-defined]
        assert [name for name in names if owns[name]] == wanted


def test_a_listing_of_others_that_never_ends_is_an_error() -> None:
    others = [f"ssbench_000001_{at:06d}" for at in range(1000)]  # of the second identity
    mine = replace(settings(), listed_max=100)
    admin = IdentitiesAdmin(mine, [Admin(others), Admin([])])  # type: ignore[list-item]
    with pytest.raises(StorageError, match="no end after 105 entries") as caught:
        admin.list_containers("ssbench_", "", 7)
    assert caught.value.kind is ErrorKind.OVERLONG
