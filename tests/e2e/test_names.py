"""Objects and containers of nasty names on a real Swift: written, read, listed, deleted, gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ssbench.core.model import Job, SizeClass
from ssbench.core.operations import CREATE, DELETE, ENSURE, READ, UPDATE
from ssbench.core.scenario.values import crud_profile
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account
from tests.fakes.drivers import WholeDriver, driver_settings
from tests.fakes.names import NASTY_NAMES

#: Beside those, whole names that end or begin as paths do.
NAMES = [*NASTY_NAMES, "a/b/", "//x//", "a/...", "/"]
SIZES = tuple(SizeClass(name, 1, 99, crud_profile([1, 1, 1, 1]), 2) for name in NASTY_NAMES)


@pytest.fixture(scope="module")
def account(embedded_swift: EmbeddedSwift) -> Account:
    return Account(embedded_swift)


@pytest.fixture(scope="module")
def driver(account: Account) -> Iterator[WholeDriver]:
    opened = WholeDriver(
        driver_settings(
            urls=(account.url,), token=account.token, sizes=SIZES, run_id="r",
            container_base="nasty", container_count=1,
        )
    )  # fmt: skip
    yield opened
    opened.close()


def test_objects_named_by_their_class(driver: WholeDriver) -> None:
    driver.make_container("nasty_000000")
    names = sorted(f"{name}_000001" for name in NASTY_NAMES)
    jobs = [Job(1, CREATE, index, 1, 0, 50) for index in range(len(SIZES))]
    for operation in (ENSURE, ENSURE, READ, UPDATE):
        for job in jobs:
            driver.actions[operation](job, 0)
    listed = [entry.name for entry in driver.list_objects("nasty_000000", "", 1000)]
    assert sorted(listed) == names
    for job in jobs:
        driver.actions[DELETE](job, 0)
    assert driver.list_objects("nasty_000000", "", 1000) == []
    assert driver.delete_container("nasty_000000")


def put_all(account: Account, container: str) -> None:
    assert account("PUT", container, b"", safe="")[0] in (201, 202)
    for name in NAMES:
        path = f"{container}/{name}"
        # All but the first slash are part of the name.
        assert account("PUT", path, name.encode(), safe="/")[0] == 201, name


def test_objects_are_listed_by_page_and_deleted_one_by_one(
    account: Account, driver: WholeDriver
) -> None:
    put_all(account, "one")
    listed, marker = [], ""
    while page := driver.list_objects("one", marker, 1):
        listed += [entry.name for entry in page]
        marker = page[-1].name
    assert listed == sorted(NAMES, key=str.encode)
    for name in NAMES:
        assert driver.delete_object("one", name), name
        assert not driver.delete_object("one", name), name
    assert driver.list_objects("one", "", 1000) == []
    assert driver.delete_container("one")


def test_objects_are_deleted_in_bulk(account: Account, driver: WholeDriver) -> None:
    put_all(account, "bulk")
    assert driver.bulk_delete("bulk", NAMES) == []
    assert driver.list_objects("bulk", "", 1000) == []
    assert driver.delete_container("bulk")


def test_containers(driver: WholeDriver) -> None:
    assert [driver.make_container(base) for base in NASTY_NAMES] == [None] * len(NASTY_NAMES)
    assert all(driver.container_info(base).marked for base in NASTY_NAMES)
    for base in NASTY_NAMES:
        found = [entry.name for entry in driver.list_containers(base, "", 100)]
        assert base in found
        assert all(name.startswith(base) for name in found)
    listed, marker = [], ""
    while page := driver.list_containers("", marker, 1):
        listed += [entry.name for entry in page]
        marker = page[-1].name
    assert [name for name in listed if name in NASTY_NAMES] == sorted(NASTY_NAMES, key=str.encode)
    for base in NASTY_NAMES:
        assert driver.delete_container(base), base
        assert not driver.delete_container(base), base
