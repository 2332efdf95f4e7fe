"""Errors of failed results in stat files of ssbench 0.3.9, without secrets.

Such results hold the job as it was sent, with the account's key in its ``auth_kwargs``, and the
text of the exception, which may quote any of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

from ssbench.core.model import ErrorKind
from ssbench.core.text import printable

#: What an exception's text says -> its kind; the first that fits.
_KINDS = [
    (re.compile(r"connect(ion)?_?\s?time(d\s)?out", re.I), ErrorKind.CONNECT_TIMEOUT),
    (re.compile(r"time(d\s)?\s?out", re.I), ErrorKind.NETWORK_TIMEOUT),
    (re.compile(r"refused|unreachable|no route", re.I), ErrorKind.CONNECT),
    (re.compile(r"reset by peer|broken pipe|disconnected", re.I), ErrorKind.RESET),
]
_STATUS = re.compile(r"(?<=\s)([1-5]\d\d)(?=\s|$|['\",])")
_CLIENT_EXCEPTION = re.compile(r"ClientException|\bfailed: http")
_TOKEN = re.compile(r"AUTH_tk\w+|(?i:token\S*\s*[:=]\s*)\S+")
_CLASS_NAME = re.compile(r"[A-Za-z.]{1,40}(?=\()")
_UNKNOWN = "unknown exception"
_DETAIL_LIMIT = 300
_DEPTH_LIMIT = 20


def text_of(value: Any, depth: int = 0) -> Any:
    """Bytes become text wherever they are: utf-8, or latin-1 as some of Python 2's were.

    What is nested deeper than any scenario is cut off there.
    """
    if depth > _DEPTH_LIMIT:
        return None
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.decode("latin-1")
    if isinstance(value, list):
        return [text_of(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {text_of(key): text_of(item, depth + 1) for key, item in value.items()}
    return value


def collect_secrets(value: Any, secrets: set[str], depth: int = 0) -> None:
    """Every text of ``auth_kwargs``, in each spelling that it may have in an exception."""
    if depth > _DEPTH_LIMIT:
        return
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            collect_secrets(item, secrets, depth + 1)
    elif type(value) is int:
        secrets.add(str(value))
    elif isinstance(value, bytes) and value:
        text = text_of(value)
        escaped = repr(value)[2:-1]
        as_unicode = text.encode("unicode_escape").decode("ascii")
        secrets.update((text, escaped, as_unicode, quote(text), quote(text, ""), quote_plus(text)))


def safe_detail(exception: str, secrets: Iterable[str]) -> str:
    """The last line of an exception, without secrets, in printable characters."""
    quotes_job = "auth_kwargs" in exception
    for secret in sorted(secrets, key=len, reverse=True):
        exception = exception.replace(secret, "***")
    lines = _TOKEN.sub("***", exception).strip().splitlines()
    if quotes_job:
        # The text may quote any part of the job: keep only the name of the exception's class.
        name = _CLASS_NAME.match(exception)
        return name.group() if name else _UNKNOWN
    return printable(lines[-1].strip())[:_DETAIL_LIMIT] if lines else _UNKNOWN


def kind_of(detail: str) -> tuple[ErrorKind, int]:
    if _CLIENT_EXCEPTION.search(detail):
        status = _STATUS.search(detail)
        if status:
            return ErrorKind.STATUS, int(status.group())
    for pattern, kind in _KINDS:
        if pattern.search(detail):
            return kind, 0
    return ErrorKind.INTERNAL, 0
