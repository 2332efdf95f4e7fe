from __future__ import annotations

from threading import current_thread, main_thread

import gevent
import pytest
from gevent.pool import Pool

from ssbench.core.errors import AuthError, StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.settings import Credentials
from ssbench.storage.base import StoreLimits
from ssbench.storage.retrying_client import RetryingClient
from tests.fakes.drivers import driver_settings, with_token
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error


def test_what_the_store_sends_back_of_the_credentials_is_masked() -> None:
    """Also of those that came by a renewal."""

    class Echo(MemoryStorage):
        def make_container(self, *_: object) -> None:
            sent = self.credentials.payload["token"]
            if sent == "token-is-expired":
                raise status_error(401)
            raise StorageError(ErrorKind.STATUS, f"PUT returned 400: {sent}", status=400)

    first, second = with_token("token-is-expired", 1), with_token("token-of-a-user-1", 2)
    for given in (second, first):
        storage = Echo()
        storage.set_credentials(given)
        client = RetryingClient(storage, credentials=given, renew=lambda: second)
        with pytest.raises(StorageError) as caught:
            client.call(client.storage.make_container, "c")
        assert (str(caught.value), caught.value.detail) == ("PUT returned 400: ***",) * 2
        assert client.shown("a token-of-a-user-1\n") == "a ***"


def test_limits_are_asked_for_once_and_none_is_known_where_the_store_refuses() -> None:
    store = MemoryStore(listing_limit=7)
    client = RetryingClient(MemoryStorage(store))
    assert [client.limits.listing_limit for _ in range(3)] == [7, 7, 7]
    assert store.count("limits") == 1
    store.refuse("limits", "", status_error(403))
    assert RetryingClient(MemoryStorage(store)).limits == StoreLimits()


def test_stopping_ends_retries() -> None:
    pauses: list[float] = []
    storage = MemoryStorage()
    storage.store.fail("make_container", status_error(503), status_error(401))
    client = RetryingClient(
        storage,
        renew=lambda: with_token("t", 2),
        stopping=lambda: len(pauses) > 0,
        sleep=pauses.append,
    )
    with pytest.raises(StorageError, match="401"):
        client.call(storage.make_container, "c")
    assert (len(pauses), storage.store.count("make_container")) == (1, 2)


def test_a_token_is_renewed_once_for_all_and_off_the_hub() -> None:
    store = MemoryStore(tokens={"new"}, pause=lambda: gevent.sleep(0))
    storage = MemoryStorage(store, driver_settings("old", 1))
    renewed_in = []

    def renew() -> Credentials:
        renewed_in.append(current_thread())
        return with_token("new", 2)

    client = RetryingClient(storage, 8, renew=renew)
    made = Pool(8).map(lambda name: client.call(storage.make_container, name), "abcdefgh")
    assert made == [None] * 8
    assert sorted(store.containers) == list("abcdefgh")
    assert len(renewed_in) == 1
    assert renewed_in[0] is not main_thread()


def test_a_token_that_is_never_accepted_is_the_stores_error() -> None:
    storage = MemoryStorage(MemoryStore(tokens=set()))
    client = RetryingClient(
        storage, renew=lambda: with_token("another", storage.credentials_serial + 1)
    )
    with pytest.raises(StorageError, match="401"):
        client.call(storage.make_container, "c")
    assert storage.credentials_serial == 3


def test_credentials_that_no_others_replace_are_renewed_once() -> None:
    """Of an identity, whose requests each fail at once then."""

    class Rejecting(MemoryStorage):
        def make_container(self, *_: object) -> None:
            error = status_error(401)
            error.identity = 2
            raise error

    renewed = []

    def renew() -> Credentials:
        renewed.append(1)
        return Credentials(len(renewed) + 1, rejected=(2,))

    storage = Rejecting(MemoryStore(tokens=set()))
    client = RetryingClient(storage, renew=renew)
    for name in "abc":
        with pytest.raises(StorageError, match="401"):
            client.call(storage.make_container, name)
    assert len(renewed) == 1


def test_a_failed_renewal_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    def renew() -> Credentials:
        raise AuthError("wrong password")

    storage = MemoryStorage(MemoryStore(tokens=set()))
    with pytest.raises(AuthError, match="wrong password"):
        RetryingClient(storage, renew=renew).call(storage.make_container, "c")
    assert "Traceback" not in capfd.readouterr().err
