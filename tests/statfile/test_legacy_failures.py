from __future__ import annotations

import pytest

from ssbench.core.model import ErrorKind
from ssbench.statfile.legacy import collect_secrets, kind_of, safe_detail


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("ClientException('Object GET failed: http://h:503/v1/a 404 Not Found',)", "STATUS", 404),
        ("ClientException('Auth GET failed: http://h/auth 401 Unauthorized')", "STATUS", 401),
        ("ConnectTimeout('10 seconds')", "CONNECT_TIMEOUT", 0),
        ("Timeout('20.0 seconds')", "NETWORK_TIMEOUT", 0),
        ("error(110, 'Connection timed out')", "CONNECT_TIMEOUT", 0),
        ("timeout('timed out',)", "NETWORK_TIMEOUT", 0),
        ("error(111, 'Connection refused')", "CONNECT", 0),
        ("error(104, 'Connection reset by peer')", "RESET", 0),
        ("KeyError('x',)", "INTERNAL", 0),
        ("", "INTERNAL", 0),
    ],
)
def test_error_kinds_are_derived_from_exception_texts(text: str, kind: str, status: int) -> None:
    assert kind_of(text) == (ErrorKind[kind], status)


def test_only_the_last_line_is_shown_escaped() -> None:
    assert safe_detail("Traceback\n  File x\nValueError: \x1b[2J\n", []) == "ValueError: \\x1b[2J"
    assert safe_detail(" \n ", []) == "unknown exception"
    assert len(safe_detail("x" * 9999, [])) <= 300


def test_secrets_are_found_at_any_depth_and_the_longest_first() -> None:
    secrets: set[str] = set()
    collect_secrets({b"a": [b"key", {b"b": b"key-and-more"}], b"c": 4711, b"d": b""}, secrets)
    assert {"key", "key-and-more", "4711"} <= secrets
    assert "" not in secrets
    assert safe_detail("key-and-more key 4711", secrets) == "*** *** ***"


def test_an_exception_that_quotes_the_job_is_reduced_to_its_class() -> None:
    assert safe_detail("KeyError({'auth_kwargs': {'key': 'k'}})", []) == "KeyError"
    assert safe_detail("{'auth_kwargs': 1}", []) == "unknown exception"
