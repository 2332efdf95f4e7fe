from __future__ import annotations

import resource

from ssbench.cli.openfiles import allow_many_connections


def test_the_limit_of_open_files_goes_up_to_what_is_allowed(few_files: int) -> None:
    allow_many_connections()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files, few_files)
