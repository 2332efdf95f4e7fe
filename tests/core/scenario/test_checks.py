import pytest

from ssbench.core import units
from ssbench.core.errors import ScenarioError
from ssbench.core.scenario import checks
from ssbench.core.scenario.checks import KeyRule, ValidationErrors, read_keys, suggest, text
from ssbench.core.units import ValidationError, preview, whole


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
    assert len(preview("a" * 1000)) == units.PREVIEW_LENGTH
    assert preview("\x7f\u202e\ud800").isprintable()


def test_faults_are_collected_and_raised_together() -> None:
    faults = ValidationErrors("x.scenario")
    faults.raise_any()
    faults.add("sizes", "empty", "one")
    assert faults.check("seed", whole(0), -1) is None
    assert faults.check_option("-u", whole(1), 0) is None
    assert faults.check("seed", whole(0), 5) == 5
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


TABLE = {"count": KeyRule(whole(1), required=True, example="4"), "more": KeyRule(whole(0))}


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
