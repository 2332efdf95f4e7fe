"""The first few refused messages are told of, a flood of them isn't."""

from __future__ import annotations

import pytest

from ssbench.core.errors import MessageError
from ssbench.wire.refusals import TOLD, Refusals


def test_a_flood_is_counted_and_told_of_in_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals("results")
    for number in range(10_000):
        refusals.tell(MessageError(f"fault {number}"))
    assert refusals.count == 10_000
    assert len(caplog.messages) == TOLD
    assert caplog.messages[0] == "Refused a message on the results port: fault 0"
    assert caplog.messages[-1].endswith("more of them are only counted")
    assert repr(refusals) == "<Refusals of the results port: 10000>"
