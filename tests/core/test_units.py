"""Each unit reads numbers of scenarios and of the API, and texts of options and variables."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.units import ValidationError

UNITS = {
    name: unit
    for name, unit in {
        **vars(units),
        "size 0": units.size_from(0),
        "size 1 GiB": units.size_from(1, 1 << 30),
        "to 10": units.whole(1, 10),
        "whole_seconds": units.whole_seconds(1),
    }.items()
    if isinstance(unit, units.Unit)
}
_RATE = "a number of operations a second, above 0 and at most 10,000,000"
#: Values that are no numbers, only in JSON; and texts that are none.
NO_NUMBERS: list[tuple[str, object, str]] = [
    ("count", True, "true is a truth value"), ("count", "3", '"3" is a string'),
    ("count", float("nan"), "NaN is not a finite number"), ("count", None, "null is null"),
    ("seconds", float("inf"), "Infinity is not a finite number"), ("count", [1], "[1] is a list"),
    ("count", {}, "{} is an object"), ("count", 10**400, "a very large number is above 9007199"),
    ("seconds", 10**400, "a very large number is above 1000000000"),
    ("seconds", "90", '"90" is a string without a unit'), ("seconds", "", '"" is a string without'),
    ("seconds", "2 weeks", '"2 weeks" can\'t be read'), ("seconds", "2hs", "can't be read"),
    ("seconds", "0s", '"0s" is not above 0'), ("seconds", "12000d", '"12000d" is above 1000000000'),
    ("size", "4x", '"4x" can\'t be read'), ("size", "0.3k", '"0.3k" can\'t be read'),
    ("size", "4096", '"4096" is a string without a unit'),
    ("size 1 GiB", "2G", '"2G" is above 1073741824'), ("rate", "5", '"5" is a string'),
]  # fmt: skip
NO_TEXTS: list[tuple[str, str, str]] = [
    ("count", "few", '"few" is not a whole number; a whole number from 1 up'),
    ("count", "9" * 5000, "999... is not a finite number; a whole number from 1 up"),
    ("rate", "fast", f'"fast" is not a number; {_RATE}'),
    ("rate", "nan", f"nan is not a finite number; {_RATE}"),
    ("seconds", "soon", '"soon" can\'t be read; a number of seconds above 0, or with a unit, as in '
     "500ms, 90s or 2h"),
    ("whole_seconds", "500ms", "500ms is not a whole number"),
    ("size", "4x", '"4x" can\'t be read; bytes from 1 up, or with a unit, as in 4k or 10MiB'),
    ("size", "\x1b[2J", "\\u001b[2J"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "raw", "message"), NO_NUMBERS)
def test_what_is_no_number_is_named(name: str, raw: object, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        UNITS[name](raw)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("name", "text", "message"), NO_TEXTS)
def test_texts_that_are_no_number_are_named(name: str, text: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        UNITS[name].of_text(text)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


@given(
    st.sampled_from(sorted(UNITS)),
    st.none()
    | st.booleans()
    | st.text(max_size=20)
    | st.integers()
    | st.floats()
    | st.lists(st.none()),
)
def test_any_value_is_in_range_or_an_error(name: str, raw: object) -> None:
    unit = UNITS[name]
    for read, value in ((unit, raw), (unit.of_text, str(raw))):
        with suppress(UsageError):
            found = read(value)  # type: ignore[arg-type]
            assert unit.low <= found <= unit.high
            assert found or not unit.above_0
