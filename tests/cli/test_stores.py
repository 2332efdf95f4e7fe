"""From options to a store that we have a token for."""

from __future__ import annotations

import pytest

from ssbench.cli.store_options import StoreOptions
from ssbench.cli.stores import noop_store, reach_store
from ssbench.core.credentials import Credentials
from ssbench.core.errors import AuthError
from ssbench.storage import open_storage
from tests.fakes.auth_v1 import AuthV1


def options(fake: AuthV1, *storage_urls: str, key: str = "testing") -> StoreOptions:
    credentials = Credentials(auth=fake.auth_url, user=fake.user, key=key)
    return StoreOptions(credentials, storage_urls, 3.0, 4.0)


def test_no_store_at_all() -> None:
    store = noop_store()
    assert store.renew is None
    assert open_storage(store.settings).make_container("c") is None


def test_settings_are_those_of_the_login_and_the_options() -> None:
    with AuthV1() as fake:
        settings = reach_store(options(fake), print).settings
        assert settings.storage_urls == (fake.storage_url,)
        assert (settings.token, settings.token_serial) == ("token-1", 1)
        assert (settings.connect_timeout_s, settings.network_timeout_s) == (3.0, 4.0)
        assert "token-1" not in repr(settings)


def test_storage_urls_of_the_options_come_first() -> None:
    with AuthV1() as fake:
        urls = ("http://a/v1/AUTH_test", "http://b/v1/AUTH_test")
        assert reach_store(options(fake, *urls), print).settings.storage_urls == urls


def test_each_renewal_has_a_new_serial() -> None:
    with AuthV1() as fake:
        renew = reach_store(options(fake), print).renew
        assert renew is not None
        assert [renew(), renew()] == [("token-2", 2), ("token-3", 3)]


def test_a_wrong_key_is_refused_and_not_shown() -> None:
    with AuthV1() as fake, pytest.raises(AuthError) as caught:
        reach_store(options(fake, key="s3cret"), print)
    assert "s3cret" not in str(caught.value)
