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


def test_what_a_run_left_is_deleted_by_either_command() -> None:
    line = f"cleanup-containers --resume-cleanup x.gz -c 3 --dry-run --yes -q {LOGIN}"
    chosen = resume_options(ns(line), {})
    assert (chosen.stats_file, chosen.concurrency) == ("x.gz", 3)
    assert (chosen.dry_run, chosen.yes, chosen.quiet) == (True, True, True)
    chosen = resume_options(ns(f"run-scenario --resume-cleanup x.gz {LOGIN}"), {})
    assert (chosen.stats_file, chosen.concurrency) == ("x.gz", 10)
    assert (chosen.dry_run, chosen.yes, chosen.quiet) == (False, False, False)
    assert chosen.store.credentials.user == "a:u"


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
