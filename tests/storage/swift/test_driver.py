from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import Job, SizeClass
from ssbench.core.operations import READ
from ssbench.core.scenario.values import crud_profile
from ssbench.core.settings import StorageSettings
from tests.fakes.drivers import WholeDriver, driver_settings, with_token
from tests.fakes.http_server import FakeContainer, FakeSwift
from tests.fakes.scripted_server import ScriptedServer, answering, ok

PROFILE = crud_profile([1, 1, 1, 1])
SIZES = (SizeClass("tiny", 1, 99, PROFILE, 10), SizeClass("q /?\u00fc%", 1, 99, PROFILE, 10))
SECRET = "AUTH_tk0123456789"

Opener = Callable[..., WholeDriver]


def settings(*urls: str, **changes: object) -> StorageSettings:
    values = {"urls": urls, "token": "tk", "run_id": "run1", "sizes": SIZES}
    return driver_settings(**{"container_count": 2, **values, **changes})  # type: ignore[arg-type]


@pytest.fixture
def swift() -> Iterator[FakeSwift]:
    with FakeSwift() as swift:
        for name in ("ssbench_000000", "ssbench_000001"):
            swift.containers[name] = FakeContainer("gold", {})
        yield swift


@pytest.fixture
def opened(swift: FakeSwift) -> Iterator[Opener]:
    """``opened(**settings)``: a driver on the fake."""
    drivers = []

    def opener(*urls: str, **changes: object) -> WholeDriver:
        drivers.append(WholeDriver(settings(*(urls or (swift.url,)), **changes)))
        return drivers[-1]

    yield opener
    for driver in drivers:
        driver.close()


@contextmanager
def against(*answers: bytes, **changes: Any) -> Iterator[WholeDriver]:
    """A driver on a server that gives just these answers."""
    with ScriptedServer(answering(*answers)) as server:
        url = f"http://127.0.0.1:{server.port}/v1/AUTH_test"
        with closing(WholeDriver(settings(url, **changes))) as driver:
            yield driver


def test_no_secret_is_shown(opened: Opener) -> None:
    driver = opened("http://127.0.0.1:1/v1/a", token=SECRET)
    with pytest.raises(StorageError) as caught:
        driver.actions[READ](Job(1, READ, 0, 0, 0, 50), 0)
    assert SECRET not in repr(driver) + repr(caught.value) + caught.value.detail
    with pytest.raises(UsageError) as usage:
        driver.set_credentials(with_token(f"{SECRET}\r\nX-Evil: 1", 1))
    assert SECRET not in str(usage.value)


def test_what_a_cluster_sends_back_of_the_token_is_masked() -> None:
    named = json.dumps({"swift": {"policies": [{"name": SECRET, "aliases": f"a {SECRET}"}]}})
    with against(ok(named.encode()), token=SECRET) as driver:
        assert driver.limits().policies == ["***", "a ***"]
    headers = f"X-Storage-Policy: {SECRET}\r\nX-Container-Meta-Note: of {SECRET}\r\n\r\n"
    with against(f"HTTP/1.1 204 X\r\n{headers}".encode(), token=SECRET) as driver:
        found = driver.container_info("c")
        assert (found.policy, found.metadata) == ("***", {"note": "of ***"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"urls": ()}, "no storage URL"),
        ({"urls": ("http://h/v1/a",), "placement": "gold\r\nX: 1"}, "policy"),
    ],
)
def test_invalid_settings(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        WholeDriver(settings(**changes))


# --- the errands around a run


def test_info_is_requested_without_the_token(swift: FakeSwift, opened: Opener) -> None:
    assert opened().limits().bulk_delete_max == 1000
    assert swift.seen[0].path == "/info"
    assert "X-Auth-Token" not in swift.seen[0].headers


def test_a_store_without_info_has_no_limits() -> None:
    with against(b"HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\nno") as driver:
        assert driver.limits().listing_limit is None
    with against(ok(b"<html>")) as driver:
        assert driver.limits().listing_limit is None
