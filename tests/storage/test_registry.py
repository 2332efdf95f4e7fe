"""Stores by name: those of the table, and drivers outside of the package."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ssbench.core.errors import AuthError, UsageError
from ssbench.core.operations import COPY, LIST, READ
from ssbench.core.option import Option
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.core.units import whole
from ssbench.storage.noop import NoopStorage
from ssbench.storage.options import (
    StoreOptions,
    given_values,
    parse_storage_options,
)
from ssbench.storage.registry import (
    ROWS,
    Permissions,
    StoreRow,
    check_capabilities,
    destination_of,
    open_provider,
    open_store,
    paths_of,
    secret_variables,
    url_count,
)

OWN_OPTIONS = (
    Option(("--own-port",), "port", whole(1), 7),
    Option(("--own-host",), "hosts", repeat=True),
    Option(("--own-fast",), "fast", bool),
    Option(("--own-key",), "key", secret=True, variables=("OWN_KEY",)),
    Option(("--own-word",), "word", secret=True),
)


class OwnStorage(NoopStorage):
    """A user's own driver."""

    ROW = StoreRow("own", f"{__name__}:OwnStorage", options=f"{__name__}:OWN_OPTIONS", urls="hosts")


class PlainStorage(NoopStorage):
    """One without a row, which tells its operations when it is open."""

    operations = None  # type: ignore[assignment]

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings, seed)
        self.actions = {READ: self.actions[READ]}


OWN = f"{__name__}:OwnStorage"


@pytest.mark.parametrize("allowed", [[], ["tests"], [OWN]])
def test_a_module_is_loaded_only_where_it_is_allowed(allowed: list[str]) -> None:
    permitted = Permissions(drivers=allowed)
    with pytest.raises(UsageError, match=f"start this worker with --allow-driver {__name__}"):
        open_store(StorageSettings(driver=OWN), permitted=permitted)
    assert open_store(StorageSettings(driver="noop"), permitted=permitted)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("contents", [False, True])
def test_a_worker_uses_only_paths_that_it_is_permitted_to_use(
    row: StoreRow, contents: bool, tmp_path: Path
) -> None:
    """Each path that settings may have, as a file of its own."""
    inside, outside = tmp_path / "in", tmp_path / "in-not"
    inside.mkdir()
    outside.touch()
    (inside / "link").symlink_to(outside)
    for name in ["contents"] if contents else row.paths:
        for path in (outside, inside / ".." / "in-not", inside / "link", tmp_path):
            settings = (
                StorageSettings(row.name, contents={"path": str(path)})
                if contents
                else StorageSettings(row.name, store={name: str(path)})
            )
            for paths in ([], [str(inside)]):
                with pytest.raises(UsageError, match=f"--allow-path {re.escape(str(path))} if"):
                    open_store(settings, permitted=Permissions(paths=paths))
            for paths in ([str(tmp_path)], ["/"], None):
                Permissions(paths=paths).check(row, settings)


def test_a_master_drops_the_caches_of_a_host_only_where_its_worker_permits_that_file(
    tmp_path: Path,
) -> None:
    caches = "/proc/sys/vm/drop_caches"
    for page_cache, paths in (("drop", [str(tmp_path)]), ("drop-all", [str(tmp_path), caches])):
        settings = StorageSettings("file", store={"path": str(tmp_path), "page_cache": page_cache})
        assert paths_of(ROWS["file"], settings) == paths  # those that local workers are permitted
        for missing in paths:
            others = [path for path in paths if path != missing]
            with pytest.raises(UsageError, match=f"--allow-path {re.escape(missing)} if"):
                open_store(settings, permitted=Permissions(paths=others))
        Permissions(paths=paths).check(ROWS["file"], settings)


def test_a_worker_sends_requests_only_to_hosts_that_it_is_permitted_to() -> None:
    urls = ("http://store.example:8080/v1/AUTH_a", "https://[::1]/v1/AUTH_a")
    settings = StorageSettings("swift", store={"urls": urls})
    with pytest.raises(UsageError, match="start this worker with --allow-host ::1 if"):
        open_store(settings, permitted=Permissions(hosts=["store.example"]))
    open_store(settings, permitted=Permissions(hosts=["store.example", "::1"])).close()


@pytest.mark.parametrize(("allowed", "host", "is_permitted"), [
    ("Store.Example", "store.example", True),
    ("store.example", "STORE.example.", True),
    ("store.example.", "store.example", True),
    ("[::1]", "::1", True),
    ("0:0:0:0:0:0:0:1", "::1", True),
    ("2001:DB8::a", "2001:db8:0::A", True),
    ("fe80::1%eth0", "fe80::1%25eth0", True),
    ("fe80::1%eth0", "fe80::1%eth1", False),
    ("store.example", "store.example..", False),
    ("store.example", "a.store.example", False),
    ("127.0.0.1", "127.0.0.10", False),
    ("::1", "127.0.0.1", False),
])  # fmt: skip
def test_a_host_has_several_forms(allowed: str, host: str, is_permitted: bool) -> None:
    permitted = Permissions(hosts=[allowed])
    with nullcontext() if is_permitted else pytest.raises(UsageError, match="--allow-host"):
        permitted.check_host(host)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_worker_permits_no_identity_more_than_others(row: StoreRow, tmp_path: Path) -> None:
    """Each identity has settings of its own, which a driver is opened with."""
    credentials = (Credentials(1, None, {"identities": [{}, {}]}),)
    for given in ({"urls": ["http://elsewhere/v1/x"]}, *({name: "/etc"} for name in row.paths)):
        store = {"identities": [("a", {}), ("b", given)]}
        settings = StorageSettings(row.name, store=store, credentials=credentials)
        with pytest.raises(UsageError, match=r"start this worker with --allow-(host|path) "):
            open_store(settings, permitted=Permissions(paths=[str(tmp_path)], hosts=["store"]))


def test_a_destination_of_identities_names_what_they_share() -> None:
    own = [("ann", {"region": "r", "bucket": "a"}), ("bob", {"region": "r", "bucket": "b"})]
    found = destination_of(StorageSettings("s3", store={**own[0][1], "identities": own}))
    assert found == {"region": "r", "identities": ["ann", "bob"]}


@pytest.mark.parametrize("name", ["swfit", "", "no.such.module:Class", "ssbench.core:X", ":X"])
def test_an_unknown_driver_is_reported_with_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(StorageSettings(driver=name))
    assert f'"{name}"' in str(caught.value)
    if ":" not in name:
        assert all(known in str(caught.value) for known in ROWS)


# Options ----------------------------------------------------------------------------------


def parsed(*texts: str) -> dict[str, Any]:
    return parse_storage_options(texts, OWN_OPTIONS)


def access(given: dict[str, Any], **environ: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found = open_provider(StoreOptions(OWN, given, environ)).log_in()
    return dict(found.settings), dict(found.credentials.payload)


def test_storage_options_have_the_types_of_their_rows() -> None:
    texts = ("port=81", "hosts=a", "hosts=b", "fast=yes")
    assert parsed(*texts) == {"port": 81, "hosts": ["a", "b"], "fast": True}
    assert access(parsed(*texts)) == ({"port": 81, "hosts": ["a", "b"], "fast": True}, {})
    assert access({}) == ({"port": 7}, {})
    assert access(parsed("fast=no")) == ({"port": 7, "fast": False}, {})
    assert url_count(StoreOptions(OWN, parsed("hosts=a", "hosts=b"))) == 2
    assert url_count(StoreOptions(OWN, site={"hosts": ["a", "b", "c"]})) == 3
    assert url_count(StoreOptions(OWN)) == url_count(StoreOptions("noop")) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("key=s3cret", "key: is secret, and a command line can be read by others: set OWN_KEY in"),
        ("word=s3cret", "set SSBENCH_STORAGE_WORD in the environment, or name a file"),
        ("wrod=s3cret", "keys fast, hosts, key_file, port, word_file"),
        ("s3cret", "expected KEY=VALUE"),
        ("port=none", '"none" is not a whole number'),
    ],
)
def test_unknown_storage_options_are_rejected_without_their_value(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(text)
    assert says in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_program_gives_options_as_text_or_converted(tmp_path: Path) -> None:
    texts = {"port": "81", "hosts": "a", "fast": "yes", "word": "w"}
    assert given_values(texts, OWN_OPTIONS) == {**texts, "port": 81, "hosts": ["a"], "fast": True}
    own = {"port": 81, "hosts": ["a", "b"], "fast": False, "key_file": str(tmp_path)}
    not_given = {"word": None, "key": None}
    assert given_values({**own, **not_given, "key_file": tmp_path}, OWN_OPTIONS) == own
    for name, value, says in (
        ("word", b"s3cret", "word: give a text or a number"),
        ("hosts", [["s3cret"]], "hosts: give a text or a number"),
        ("fast", [], "fast: give true or false"),
        ("port", "none", 'port: "none" is not a whole number'),
        ("", "s3cret", "no such key ''; this store has the keys fast, hosts, key, port, word"),
    ):
        with pytest.raises(UsageError, match=f"^storage_options: {says}") as caught:
            given_values({name: value}, OWN_OPTIONS)
        assert "s3cret" not in str(caught.value)


def test_secrets_come_from_files_and_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("of the file\n")
    environ = {"OWN_KEY": "of the environment", "SSBENCH_STORAGE_WORD": "word"}
    secret = {"key": "of the environment", "word": "word"}
    assert access({}, **environ) == ({"port": 7}, secret)
    given = parsed(f"key_file={path}")
    assert access(given, **environ) == ({"port": 7}, {**secret, "key": "of the file"})
    path.unlink()
    with pytest.raises(UsageError, match=r"key_file .*: No such file"):
        access(given)
    assert {"OWN_KEY", "SSBENCH_STORAGE_WORD", "ST_KEY"} <= secret_variables(StoreOptions(OWN))


def test_nothing_shows_a_secret() -> None:
    options = StoreOptions(OWN, {}, {"OWN_KEY": "s3cret"})
    assert "s3cret" not in f"{options}{open_provider(options)}{open_provider(options).log_in()}"


def test_the_destination_has_no_secret() -> None:
    urls = ["http://me:s3cret@h:1/v1/AUTH_a?s3cret=1#s3cret", "https://[::1]/"]
    store = {"urls": urls, "region": "r", "bucket": "b", "cacert_pem": "x", "insecure": True}
    shown = ["http://h:1/v1/AUTH_a", "https://[::1]/"]
    assert destination_of(StorageSettings("s3", store=store)) == {
        "urls": shown, "region": "r", "bucket": "b",
    }  # fmt: skip
    assert destination_of(StorageSettings(OWN, store={"hosts": urls, "fast": 1})) == {"urls": shown}
    assert destination_of(StorageSettings("file", store={"path": "/d"})) == {"path": "/d"}
    assert destination_of(StorageSettings("noop")) == {}


def test_credentials_without_a_login_are_not_renewed() -> None:
    with pytest.raises(AuthError, match="rejected the given credentials"):
        open_provider(StoreOptions("noop")).renew()


def test_what_a_store_lacks_is_named_with_the_stores_that_have_it() -> None:
    swift, plain = StorageSettings(), StorageSettings(driver=f"{__name__}:PlainStorage")
    everything = {"name": "x", "delete_after": 60, "policy": "gold"}
    assert check_capabilities(swift, [READ, LIST, COPY], everything) == []
    assert check_capabilities(plain, [READ], {"name": "x"}) == []
    lacking = check_capabilities(plain, [LIST, READ, 1234], everything)
    assert [key for key, _line in lacking] == ["operations", "operations", "delete_after", "policy"]
    lines = [line for _key, line in lacking]
    assert [line.partition("; ")[0] for line in lines] == [
        f'the store "{plain.driver}" has no {lacking}'
        for lacking in ("operation list", "operation 1234", "delete_after", "policy")
    ]
    assert lines[0].startswith(f'the store "{plain.driver}" has no operation list; stores that')
    assert "swift" in lines[0]
    assert lines[1].endswith("no other store has it")
    assert "swift" in lines[2]


@pytest.mark.parametrize("name", ["swift", "s3", "webdav", "file", "noop"])
def test_a_checksum_that_a_store_cannot_have_is_named(name: str) -> None:
    lines = {
        each: check_capabilities(StorageSettings(driver=name), [], {"checksum": each})
        for each in ("none", "sha256", "md5")
    }
    having = {"swift": ["md5"], "s3": ["sha256", "md5"], "noop": ["sha256", "md5"]}
    assert [each for each, found in lines.items() if not found] == ["none", *having.get(name, [])]
    if name == "swift":
        ((key, line),) = lines["sha256"]
        assert key == "checksum"
        assert line.startswith('the store "swift" has no checksum sha256; stores that have it: s3')


def test_a_key_of_an_operation_counts_if_it_is_not_the_default() -> None:
    webdav = StorageSettings(driver="webdav")
    defaults = {"list_limit": 1000, "list_prefix": "", "list_delimiter": ""}
    assert check_capabilities(webdav, [LIST], defaults) == []
    ((key, line),) = check_capabilities(
        webdav, [LIST], {**defaults, "list_limit": 10, "list_prefix": "x"}
    )
    assert key == "list_limit"
    assert line.startswith('the store "webdav" has no list_limit; stores that have it: swift')
