"""What find-limit is told."""

from __future__ import annotations

import pytest

from ssbench.cli.limit_options import LimitOptions, limit_options
from ssbench.cli.options import master_parser
from ssbench.core.errors import UsageError


def chosen(*words: str) -> LimitOptions:
    line = ["find-limit", "-f", "s", "--noop", *words]
    return limit_options(master_parser().parse_args(line), {})


def test_the_defaults() -> None:
    options = chosen("--slo", "p99 < 50ms", "--workers", "2")
    assert (options.over, options.first, options.most, options.precision) == (
        "users",
        1,
        1024,
        0.05,
    )
    assert options.run.overrides == {"run_seconds": 13.0, "warmup": 3.0}
    assert [str(each) for each in options.run.thresholds] == ["p99 < 50ms", "errors < 1%"]
    assert (options.run.sweep, options.run.auto_stop) == (None, None)


def test_a_step_is_its_warm_up_and_its_time() -> None:
    options = chosen("--slo", "p99 < 50ms", "--step-seconds", "5", "--warmup", "0")
    assert options.run.overrides["run_seconds"] == 5


def test_errors_are_promised_unless_a_promise_is_of_them() -> None:
    options = chosen("--slo", "p99 < 50ms", "--slo", "errors < 5%", "--slo", "p99 < 50ms")
    assert [str(each) for each in options.run.thresholds] == ["p99 < 50ms", "errors < 5%"]


def test_how_far_to_look() -> None:
    slo = ("--slo", "p99 < 50ms")
    assert chosen(*slo).most is None  # what workers of other hosts can be
    assert chosen(*slo, "--workers", "1", "--expect-workers", "3").most is None
    assert chosen(*slo, "--max-users", "70", "--start", "8").most == 70
    assert chosen(*slo, "--over", "rate", "-u", "50").first == 10
    assert chosen(*slo, "--over", "rate", "--max-rate", "0.5", "--start", "0.1").most == 0.5


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--slo nonsense", "--slo"),
        ("--slo p99<1s -u 5", "-u: find-limit searches for the number of users"),
        ("--slo p99<1s --max-rate 5", "--max-rate requires --over rate"),
        ("--slo p99<1s --over rate --max-users 5", "--max-users requires --over users"),
        ("--slo p99<1s --start 2.5", "give a whole number of users"),
        ("--slo p99<1s --start 9 --max-users 8", "--start 9 is above --max-users 8"),
        ("--slo p99<1s --over rate --start 9 --max-rate 8", "--start 9 is above --max-rate 8"),
    ],
)
def test_what_does_not_go_together(words: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(*words.split())
    assert says in str(caught.value)
