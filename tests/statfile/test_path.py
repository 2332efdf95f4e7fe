from __future__ import annotations

import os
import stat
from datetime import datetime
from pathlib import Path

import pytest

from ssbench.core.errors import StatFileError
from ssbench.statfile import StatFileWriter, default_path

NOW = datetime(2013, 6, 7, 10, 23, 14)


def name_of(scenario: str, parent: Path) -> str:
    return default_path(scenario, 4, 613, None, NOW, parent=parent).name


def test_the_default_path_is_that_of_0_3_9(tmp_path: Path) -> None:
    path = default_path("Small test scenario", 4, 613, None, NOW, parent=tmp_path)
    wanted = "ssbench-results/Small_test_scenario.u4.o613.r-.2013-06-07.102314.stat.gz"
    assert path == tmp_path / wanted
    path = default_path("a", 4, None, 60.0, NOW, parent=tmp_path)
    assert path.name == "a.u4.o-.r60.2013-06-07.102314.stat.gz"


def test_the_folder_is_private(tmp_path: Path) -> None:
    folder = default_path("a", 1, 1, None, NOW, parent=tmp_path).parent
    assert folder.stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize("scenario", ["../../etc/x", "a/b", "a\0b", "", ".", "..", "\x1b[2J", "é"])
def test_names_cannot_leave_the_folder(tmp_path: Path, scenario: str) -> None:
    path = default_path(scenario, 1, 1, None, NOW, parent=tmp_path)
    assert path.parent == tmp_path / "ssbench-results"
    assert path.name.isascii()
    assert path.name.isprintable()
    assert not path.name.startswith(".")
    StatFileWriter.create(path).close()


def test_a_long_name_is_truncated(tmp_path: Path) -> None:
    assert len(name_of("x" * 1000, tmp_path)) < 200


def test_a_second_run_of_the_same_second_gets_its_own_file(tmp_path: Path) -> None:
    path = default_path("a", 1, 1, None, NOW, parent=tmp_path)
    path.symlink_to(tmp_path / "elsewhere")
    second = default_path("a", 1, 1, None, NOW, parent=tmp_path)
    assert second.name == "a.u1.o1.r-.2013-06-07.102314.2.stat.gz"


def test_a_link_or_file_in_place_of_the_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ssbench-results").symlink_to(tmp_path / "elsewhere")
    path = default_path("a", 1, 1, None, NOW, parent=tmp_path)
    assert path.parent == tmp_path / f"ssbench-results-{os.geteuid()}"
    path.parent.rmdir()
    path.parent.write_text("in the way")
    with pytest.raises(StatFileError, match=r"ssbench-results-.*name a stat file with -s"):
        default_path("a", 1, 1, None, NOW, parent=tmp_path)


def test_a_missing_parent_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StatFileError, match="can't be made"):
        default_path("a", 1, 1, None, NOW, parent=tmp_path / "nowhere")


def test_a_folder_of_ones_own_is_made_and_named_if_that_fails(tmp_path: Path) -> None:
    own = str(tmp_path / "own")
    for _ in range(2):
        assert str(default_path("a", 1, 1, None, NOW, results_dir=own).parent) == own
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700
    with pytest.raises(StatFileError, match=r"--results-dir .*/no/where: can't be made: No such"):
        default_path("a", 1, 1, None, NOW, results_dir=str(tmp_path / "no/where"))
