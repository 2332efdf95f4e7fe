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
#: Unit, text, value; a number in the text is right in JSON as well, and so is one with a unit.
RIGHT: list[tuple[str, str, float]] = [
    ("count", "1", 1), ("count", "1e3", 1000), ("count", "2.0", 2), ("count_or_none", "0", 0),
    ("port", "65535", 65535), ("to 10", "10", 10), ("seed", "18446744073709551615", 2**64 - 1),
    ("seconds", "2.5", 2.5), ("seconds", "1e3", 1000.0), ("seconds", "2h", 7200.0),
    ("seconds", "500ms", 0.5), ("seconds", "1h30m", 5400.0), ("seconds", "1.5 min", 90.0),
    ("seconds", "1000000000s", 1e9), ("seconds_or_none", "0", 0.0), ("seconds_or_none", "0s", 0.0),
    ("whole_seconds", "2h", 7200), ("whole_seconds", "1", 1), ("size", "65536", 65536),
    ("size", "64k", 65536), ("size", "10MiB", 10 << 20), ("size", "1.5GB", 1_500_000_000),
    ("size 0", "0B", 0), ("size 1 GiB", "1G", 1 << 30), ("rate", "0.5", 0.5),
    ("rate", "10000000", 1e7), ("percentile", "99.9", 99.9), ("percentile", "100", 100.0),
    ("tolerance", "7.5", 7.5), ("factor", "0.001", 0.001),
]  # fmt: skip
#: Unit, value of JSON, and all that its error says. Of a number as text it says the same.
_SECONDS = 'a number of seconds above 0, or a string with a unit, as in "500ms", "90s" or "2h"'
_BYTES = 'bytes from 1 up, or a string with a unit, as in "4k" or "10MiB"'
_RATE = "a number of operations a second, above 0 and at most 10,000,000"
WRONG: list[tuple[str, object, str]] = [
    ("count", 0, "0 is below 1; a whole number from 1 up"),
    ("count", -3, "-3 is below 1; a whole number from 1 up"),
    ("count", 1.5, "1.5 is not a whole number; a whole number from 1 up"),
    ("count", 2**53, "9007199254740992 is above 9007199254740991; a whole number from 1 up"),
    ("to 10", 11, "11 is above 10; a whole number from 1 to 10"),
    ("port", 65536, "65536 is above 65535; a whole number from 1 to 65535"),
    ("seconds", 0, f"0 is not above 0; {_SECONDS}"),
    ("seconds", -1, f"-1 is not above 0; {_SECONDS}"),
    ("seconds", 10000000000.0, f"10000000000.0 is above 1000000000; {_SECONDS}"),
    ("seconds_or_none", -1, "-1 is below 0; a number of seconds of 0 or more, or a string with a "
     'unit, as in "500ms", "90s" or "2h"'),
    ("whole_seconds", 0, "0 is below 1; a whole number of seconds from 1 up, or a string with a "
     'unit, as in "90s" or "2h"'),
    ("size", 0, f"0 is below 1; {_BYTES}"),
    ("size", 0.5, f"0.5 is not a whole number; {_BYTES}"),
    ("rate", 0, f"0 is not above 0; {_RATE}"),
    ("rate", 1e-300, f"1e-300 is below 1e-09; {_RATE}"),
    ("rate", 1e9, f"1000000000.0 is above 10000000; {_RATE}"),
    ("percentile", 0, "0 is not above 0; a percentile above 0 and at most 100"),
    ("percentile", 100.1, "100.1 is above 100; a percentile above 0 and at most 100"),
    ("tolerance", 100, "100 is not below 100; percent, above 0 and below 100"),
    ("factor", 1e9, "1000000000.0 is above 1000000; a factor from 0.001 to 1000000"),
]  # fmt: skip
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


@pytest.mark.parametrize(("name", "text", "value"), RIGHT)
def test_right_values_are_the_same_from_text_and_json(name: str, text: str, value: float) -> None:
    unit = UNITS[name]
    raw = text if text[-1].isalpha() else float(text) if value < 1e15 else int(text)
    for found in (unit.of_text(text), unit(raw)):
        assert found == value
        assert type(found) is unit.kind


@pytest.mark.parametrize(("name", "raw", "message"), WRONG)
def test_wrong_numbers_have_the_same_error_from_text_and_json(
    name: str, raw: object, message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        UNITS[name](raw)
    assert str(caught.value) == message
    with pytest.raises(ValidationError) as caught:
        UNITS[name].of_text(str(raw))
    wrong = message.partition(";")[0]
    assert str(caught.value).startswith(f"{wrong}; ")


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
