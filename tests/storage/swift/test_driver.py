from __future__ import annotations

import json
from contextlib import closing

import pytest

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import Job
from ssbench.core.operations import READ
from ssbench.storage.registry import open_admin, open_store
from tests.contract.stores import driver_on
from tests.fakes.answered_store import SIZES, response
from tests.fakes.drivers import driver_settings, with_token
from tests.fakes.scripted_server import ok

SECRET = "AUTH_tk0123456789"


def test_no_secret_is_shown() -> None:
    given = driver_settings(SECRET, urls=("http://127.0.0.1:1/v1/a",), sizes=SIZES)
    with closing(open_store(given)) as driver:
        with pytest.raises(StorageError) as caught:
            driver.actions[READ](Job(1, READ, 0, 0, 0, 50), 0)
        assert SECRET not in repr(driver) + repr(caught.value) + caught.value.detail
        with pytest.raises(UsageError) as usage:
            driver.set_credentials(with_token(f"{SECRET}\r\nX-Evil: 1", 1))
        assert SECRET not in str(usage.value)


def test_what_a_cluster_sends_back_of_the_token_is_masked() -> None:
    named = json.dumps({"swift": {"policies": [{"name": SECRET, "aliases": f"a {SECRET}"}]}})
    headers = f"X-Storage-Policy: {SECRET}\r\nX-Container-Meta-Note: of {SECRET}\r\n\r\n"
    answers = ok(named.encode()), f"HTTP/1.1 204 X\r\n{headers}".encode()
    with driver_on("swift", *answers, kind=open_admin, issued={"token": SECRET}) as (admin, _):
        assert admin.limits().policies == ["***", "a ***"]
        found = admin.container_info("c")
    assert (found.policy, found.metadata) == ("***", {"note": "of ***"})


def test_invalid_settings() -> None:
    with pytest.raises(UsageError, match="no storage URL"):
        open_store(driver_settings(urls=()))
    with pytest.raises(UsageError, match="policy"):
        open_admin(driver_settings(urls=("http://h/v1/a",), placement="gold\r\nX: 1"))


# --- the errands around a run


def test_limits_are_requested_without_the_token_and_are_none_where_the_store_states_none() -> None:
    info = b'{"swift": {}, "bulk_delete": {"max_deletes_per_request": 7}}'
    for answer, limit in ((ok(info), 7), (response(404, "no"), None), (ok(b"<html>"), None)):
        with driver_on("swift", answer, kind=open_admin) as (admin, heard):
            assert admin.limits().bulk_delete_max == limit
        assert heard[0].target == "/info"
        assert "x-auth-token" not in heard[0].headers
