"""Making and deleting containers, on a real Swift."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from gevent.pool import Pool
from msgspec.structs import replace

from ssbench.commands.cleanup import delete, plan
from ssbench.core.errors import SsbenchError
from ssbench.core.model import Job, SizeClass
from ssbench.core.operations import CREATE
from ssbench.core.scenario.values import container_name, crud_profile
from ssbench.core.settings import StorageSettings
from ssbench.embedded import EmbeddedSwift
from ssbench.runner.prepare import make_containers
from ssbench.storage.base import StoreLimits
from ssbench.storage.registry import open_admin
from ssbench.storage.retrying_client import RetryingClient
from tests.fakes.drivers import WholeDriver, driver_settings

pytestmark = pytest.mark.e2e

SIZES = (SizeClass("tiny é/?%\n", 1, 9, crud_profile([1, 1, 1, 1]), 10),)
NAMES = [container_name("tidy", index) for index in range(4)]
NEIGHBOURS = ["tidy_backup", "tidy_000001_gold", "tidy_0000011", "tidyx_000001"]


@pytest.fixture(scope="module")
def settings(embedded_swift: EmbeddedSwift) -> StorageSettings:
    connection = HTTPConnection(urlsplit(embedded_swift.auth_url).netloc)
    headers = {"X-Auth-User": embedded_swift.user, "X-Auth-Key": embedded_swift.key}
    connection.request("GET", "/auth/v1.0", headers=headers)
    token = connection.getresponse().headers["X-Auth-Token"] or ""
    connection.close()
    return driver_settings(
        token=token,
        urls=(embedded_swift.storage_url,),
        sizes=SIZES,
        run_id="run1",
        container_base="tidy",
        container_count=len(NAMES),
    )


@pytest.fixture
def storage(settings: StorageSettings) -> Iterator[WholeDriver]:
    opened = WholeDriver(settings)
    yield opened
    opened.close()


def client(storage: Any) -> RetryingClient:
    return RetryingClient(storage, 8)


class Limited:
    """A storage that says other limits of itself: small pages, with or without bulk delete."""

    def __init__(self, storage: WholeDriver, limits: StoreLimits) -> None:
        self._storage = storage
        self._limits = limits

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    def limits(self) -> StoreLimits:
        return self._limits


@pytest.mark.parametrize("bulk", [10, None])
def test_created_containers_are_deleted_and_no_others(
    storage: WholeDriver, bulk: int | None
) -> None:
    make_containers(client(storage), NAMES + NEIGHBOURS)
    make_containers(client(storage), NAMES)  # they exist: nothing changes
    made = storage.list_containers("tidy", "", 100)
    assert [entry.name for entry in made] == sorted(NAMES + NEIGHBOURS)
    create, patient = storage.actions[CREATE], client(storage)  # it may be too busy
    Pool(8).map(lambda n: patient.call(create, Job(n, CREATE, 0, n, 0, 5), 0), range(100))
    limits = replace(storage.limits(), listing_limit=7, bulk_delete_max=bulk)
    limited = Limited(storage, limits)
    planned = plan(client(limited), "tidy").entries
    assert [entry.name for entry in planned] == NAMES
    result = delete(client(limited), planned)
    assert (result.objects, result.containers, result.examples) == (100, 4, [])
    left = storage.list_containers("tidy", "", 100)
    assert [entry.name for entry in left] == sorted(NEIGHBOURS)
    assert delete(client(storage), left).ok


def test_another_policy_is_reported(storage: WholeDriver, settings: StorageSettings) -> None:
    make_containers(client(storage), NAMES)
    silver = open_admin(replace(settings, placement="silver"))
    with pytest.raises(SsbenchError, match='under storage policy "gold", not "silver"'):
        make_containers(client(silver), NAMES, policy="silver")
    silver.close()
    assert delete(client(storage), plan(client(storage), "tidy").entries).ok
