"""The commands of the pages on other tools, and on users' own files and logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.documents import OF_OTHER_TOOLS, Servers, check_page, started_servers, with_commands
from tests.test_docs import PAGES


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with started_servers(tmp_path_factory.mktemp("servers")) as made:
        yield made


@pytest.mark.parametrize(
    "path", with_commands(path for path in PAGES if path.name in OF_OTHER_TOOLS)
)
def test_the_commands_of_the_page_work(path: Path, tmp_path: Path, servers: Servers) -> None:
    check_page(path, tmp_path, servers)
