import pytest

from ssbench.core.errors import ScenarioError
from ssbench.core.scenario import checks
from ssbench.core.scenario.checks import (
    KeyRule,
    ValidationError,
    ValidationErrors,
    duration,
    integer,
    preview,
    read_keys,
    seconds,
    size,
    suggest,
    text,
)


@pytest.mark.parametrize(("raw", "value"), [(1, 1), (1000, 1000), (1e3, 1000), (2.0, 2)])
def test_whole_takes_whole_numbers_however_written(raw: object, value: int) -> None:
    checked = integer(1)(raw)
    assert checked == value
    assert type(checked) is int


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        (True, "true is a truth value"),
        ("3", '"3" is a string'),
        (1.5, "1.5 is not a whole number"),
        (float("nan"), "NaN is not a finite number"),
        (float("inf"), "Infinity is not a finite number"),
        (None, "null is null"),
        ([1], "[1] is a list"),
        ({}, "{} is an object"),
        (0, "0 is below 1"),
        (1e300, "is above"),
        (2**53, "9007199254740992 is above 9007199254740991"),
        (10**400, "a very large number is above"),
    ],
)
def test_whole_names_the_fault_and_valid_values(raw: object, wrong: str) -> None:
    with pytest.raises(ValidationError, match=r"a whole number from 1 up$") as caught:
        integer(1)(raw)
    assert wrong in str(caught.value)


def test_a_bounded_range_is_named_completely() -> None:
    with pytest.raises(ValidationError, match=r"^11 is above 10; a whole number from 1 to 10$"):
        integer(1, 10)(11)


@pytest.mark.parametrize("raw", [0, 0.0, -1, float("inf"), True, "1", None, 10**400])
def test_seconds_are_a_finite_time_above_none(raw: object) -> None:
    with pytest.raises(ValidationError, match=r'a number of seconds above 0, or .* "90s" or "2h"$'):
        seconds(raw)


@pytest.mark.parametrize(
    ("raw", "value"), [("2h", 7200), ("90s", 90), ("500ms", 0.5), ("1h30m", 5400), ("1.5 min", 90)]
)
def test_seconds_may_have_a_unit(raw: str, value: float) -> None:
    assert seconds(raw) == value
    assert duration(raw) == value


@pytest.mark.parametrize(
    "raw", ["0s", "-2s", "2 weeks", "s", "", "90", "1e3", "inf", "nan", "2hs", "12000d"]
)
def test_invalid_durations(raw: str) -> None:
    with pytest.raises(ValidationError):
        seconds(raw)


@pytest.mark.parametrize("raw", [1e10, 1e308, "11575d"])
def test_durations_have_a_limit(raw: object) -> None:
    assert duration(1e9) == duration("1000000000s") == 1e9
    with pytest.raises(ValidationError, match=r" is too long; at most 1,000,000,000 seconds$"):
        seconds(raw)


def test_sizes_may_have_a_unit() -> None:
    assert [size(0)(raw) for raw in (0, 4096, "4k", "10MiB", "1.5GB", "0B")] == [
        0, 4096, 4096, 10 << 20, 1_500_000_000, 0,
    ]  # fmt: skip
    for raw in ("4096", "4x", "0.3k", "-4k", "k", ""):
        with pytest.raises(ValidationError, match=r'bytes from 0 up, or .* "4k" or "10MiB"$'):
            size(0)(raw)
    with pytest.raises(ValidationError, match=r"^2147483648 is above 1073741824; "):
        size(1, 1 << 30)("2G")


def test_seconds_may_be_a_fraction() -> None:
    assert seconds(0.25) == 0.25


@pytest.mark.parametrize("raw", ["", "a\nb", "\x1b[2J", "\x9b", "\ud800", 3, None])
def test_text_rejects_surrogates_and_control_characters(raw: object) -> None:
    with pytest.raises(ValidationError) as caught:
        text(raw)
    assert str(caught.value).isprintable()


def test_text_in_any_language_is_accepted() -> None:
    assert text("größe 对象") == "größe 对象"


def test_near_words_are_suggested_and_others_listed() -> None:
    assert suggest("User_Cuont", ["user_count", "seed"]) == 'did you mean "user_count"?'
    assert suggest("zzz", ["user_count", "seed"]) == "one of user_count, seed"
    assert suggest("zzz", []) == "leave it out"


def test_a_very_long_word_is_compared_with_nothing() -> None:
    assert suggest("seed" * 100_000, ["seed"]) == "one of seed"


def test_shown_is_short_and_escaped() -> None:
    assert preview("a" * 1000).endswith("aaa...")
    assert len(preview("a" * 1000)) == checks.PREVIEW_LENGTH
    assert preview("\x7f\u202e\ud800").isprintable()


def test_faults_are_collected_and_raised_together() -> None:
    faults = ValidationErrors("x.scenario")
    faults.raise_any()
    faults.add("sizes", "empty", "one")
    assert faults.check("seed", integer(0), -1) is None
    assert faults.check_option("-u", integer(1), 0) is None
    assert faults.check("seed", integer(0), 5) == 5
    with pytest.raises(ScenarioError) as caught:
        faults.raise_any()
    assert caught.value.faults == (
        "x.scenario: sizes: empty; one",
        "x.scenario: seed: -1 is below 0; a whole number from 0 up",
        "-u: 0 is below 1; a whole number from 1 up",
    )


def test_many_faults_are_truncated_with_a_count() -> None:
    faults = ValidationErrors("x")
    for i in range(checks.MAX_FAULTS + 1234):
        faults.add(f"k{i}", "wrong", "right")
    with pytest.raises(ScenarioError) as caught:
        faults.raise_any()
    assert len(caught.value.faults) == checks.MAX_FAULTS + 1
    assert caught.value.faults[-1] == "x: and 1,234 more errors"


TABLE = {"count": KeyRule(integer(1), required=True, example="4"), "more": KeyRule(integer(0))}


def read(raw: dict[str, object]) -> tuple[dict[str, object], list[str]]:
    faults = ValidationErrors("x")
    return read_keys(raw, TABLE, "rows[2]", faults, ("other",)), faults.lines


def test_values_are_checked_and_null_means_absent() -> None:
    assert read({"count": 3, "more": None, "other": []}) == ({"count": 3}, [])


def test_every_fault_has_its_place() -> None:
    values, faults = read({"more": -1, "cuont": 3})
    assert values == {"more": None}
    assert faults == [
        'x: rows[2].cuont: unknown key; did you mean "count"?',
        'x: rows[2].count: missing; as in "count": 4',
        "x: rows[2].more: -1 is below 0; a whole number from 0 up",
    ]
