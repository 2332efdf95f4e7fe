from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from ssbench.core.errors import UsageError
from ssbench.core.settings import StorageSettings
from ssbench.storage.tls import client_context


def test_servers_are_verified_unless_told_otherwise() -> None:
    context = client_context(StorageSettings())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert client_context(StorageSettings(insecure=True)).verify_mode is ssl.CERT_NONE


def test_a_bundle_that_is_none_is_the_users_fault() -> None:
    with pytest.raises(UsageError, match="can't be used"):
        client_context(StorageSettings(cacert_pem="no certificate"))


def test_a_client_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "absent.pem")
    with pytest.raises(UsageError, match=r"absent\.pem can't be used: .*No such file"):
        client_context(StorageSettings(cert_path=path))
