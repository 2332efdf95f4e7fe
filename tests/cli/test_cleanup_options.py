"""What cleanup-containers is told, and --resume-cleanup."""

from __future__ import annotations

import argparse

import pytest

from ssbench.cli.cleanup_options import cleanup_options, resume_options
from ssbench.cli.options import master_parser
from ssbench.core.errors import UsageError

LOGIN = "-A http://h/auth -U a:u -K s3cret"


def ns(line: str) -> argparse.Namespace:
    return master_parser().parse_args(line.split())


def test_a_clean_up() -> None:
    chosen = cleanup_options(ns(f"cleanup-containers -p * --dry-run {LOGIN}"), {})
    assert (chosen.container_base, chosen.concurrency, chosen.policy) == ("ssbench", 10, "*")
    assert chosen.dry_run
    assert not chosen.yes


def test_an_empty_policy_is_none() -> None:
    """As scripts give it, whose variable is empty."""
    words = ["cleanup-containers", "-p", "", *LOGIN.split()]
    assert cleanup_options(master_parser().parse_args(words), {}).policy is None


def test_containers_without_our_mark_are_for_a_run_s_leftovers_alone() -> None:
    with pytest.raises(UsageError, match="--use-existing requires --resume-cleanup"):
        cleanup_options(ns(f"cleanup-containers --use-existing {LOGIN}"), {})
    for command in ("cleanup-containers", "run-scenario"):
        line = f"{command} --resume-cleanup x.gz --use-existing {LOGIN}"
        assert resume_options(ns(line), {}).use_existing
        assert not resume_options(ns(f"{command} --resume-cleanup x.gz {LOGIN}"), {}).use_existing


def test_what_a_run_left_is_deleted_by_either_command() -> None:
    line = f"cleanup-containers --resume-cleanup x.gz -c 3 --dry-run --yes -q {LOGIN}"
    chosen = resume_options(ns(line), {})
    assert (chosen.stats_file, chosen.concurrency) == ("x.gz", 3)
    assert (chosen.dry_run, chosen.yes, chosen.quiet) == (True, True, True)
    chosen = resume_options(ns(f"run-scenario --resume-cleanup x.gz {LOGIN}"), {})
    assert (chosen.stats_file, chosen.concurrency) == ("x.gz", 10)
    assert (chosen.dry_run, chosen.yes, chosen.quiet) == (False, False, False)
    assert chosen.store.given["user"] == "a:u"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run-scenario --noop", "leave out --noop and --embedded-swift"),
        ("run-scenario --embedded-swift", "leave out --noop and --embedded-swift"),
        ("cleanup-containers -b mine", "leave out -b and -p"),
        ("cleanup-containers -p gold", "leave out -b and -p"),
    ],
)
def test_what_does_not_go_with_a_run_of_old(line: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"^--resume-cleanup .*{said}$"):
        resume_options(ns(f"{line} --resume-cleanup x.gz"), {})
