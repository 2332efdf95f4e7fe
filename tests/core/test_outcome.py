from __future__ import annotations

import pytest

from ssbench.core.outcome import outcome_of


def test_a_value_is_returned() -> None:
    assert outcome_of(int, "12", base=8)() == 10


def test_an_exception_is_kept_until_it_is_asked_for() -> None:
    outcome = outcome_of(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        outcome()


def test_exceptions_that_end_the_program_are_not_kept() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outcome_of(interrupted)
