"""Data from outside becomes values of a type, or one error of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ssbench.core.errors import MessageError

T = TypeVar("T")

#: What msgspec raises for hostile bytes: the last two for what is nested, or announces more than
#: there is memory for.
_TYPED_FAULTS = (msgspec.MsgspecError, ValueError, MemoryError, RecursionError)


def typed(read: Callable[..., Any], data: object, what: str, /, **options: Any) -> Any:
    """What a decoder of msgspec makes of data.

    :param read: ``Decoder.decode``, or ``msgspec.convert``.
    :param what: begins the message.
    :raises MessageError: it is nothing of the kind.
    """
    try:
        return read(data, **options)
    except _TYPED_FAULTS as error:
        raise MessageError(f"{what}: {error}") from error
