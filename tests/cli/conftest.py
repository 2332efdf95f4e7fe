from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest


@pytest.fixture
def few_files() -> Iterator[int]:
    """A process that may open 256 files, unless it asks for more; gives how many then."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
