import os
from pathlib import Path

import pytest

from ssbench.core.errors import UsageError
from ssbench.core.operations import CREATE, READ, UPDATE
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.workload.bench import why_not_held
from ssbench.runner.config import CANNED, find_scenario, list_canned

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without scenarios, where ssbench is run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_and_listed_scenarios_agree() -> None:
    files = {path.stem for path in CHECKOUT.joinpath("scenarios").glob("*.scenario")}
    assert files == set(CANNED)
    assert [name for name, _ in list_canned()] == list(CANNED)
    assert len({scenario.name for _, scenario in list_canned()}) == len(CANNED)


@pytest.mark.parametrize("name", CANNED)
def test_each_canned_scenario_is_complete_and_holds_its_mix(name: str) -> None:
    text, source, _ = find_scenario(name)
    scenario = Scenario.resolve(text, source)
    assert len(scenario.summary()) < 160
    assert why_not_held(scenario) == ""


def test_very_small_has_the_profile_of_0_3_9_and_takes_seconds() -> None:
    scenario = dict(list_canned())["very_small"]
    assert {size.profile for size in scenario.sizes} == {
        ((CREATE, 0.1), (READ, 0.75), (UPDATE, 0.15))
    }
    uploads = sum(size.initial_files for size in scenario.sizes)
    assert scenario.operation_count is not None
    requests = scenario.container_count + 2 * uploads + 2 * scenario.operation_count
    assert requests / 150 < 10  # a throw-away Swift does 150 a second or more


@pytest.mark.parametrize("name", ["small", "small_test"])
def test_a_file_of_that_name_comes_first(elsewhere: Path, name: str) -> None:
    elsewhere.joinpath(name).write_text("mine")
    assert find_scenario(name) == (b"mine", name, "")
    assert find_scenario(f"{name}.scenario")[0] != b"mine"


def test_no_file_is_taken_for_a_canned_scenario_that_another_user_has_placed(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp as the working directory: its load would go out with the user's login."""
    theirs = os.stat_result([0o100644, 0, 0, 1, os.geteuid() + 1, *[0] * 5])
    for name in ("small", "small_test", "mine"):
        elsewhere.joinpath(name).write_text(name)
    monkeypatch.setattr("ssbench.host.files.os.lstat", lambda path, **_: theirs)
    assert find_scenario("small")[0] == b"small"
    elsewhere.chmod(0o1777)
    for name in ("small", "small_test"):
        with pytest.raises(UsageError, match=f"^{name}: another user has placed it there"):
            find_scenario(name)
    assert find_scenario("mine")[0] == b"mine"  # which was named


def test_a_folder_of_that_name_does_not(elsewhere: Path) -> None:
    elsewhere.joinpath("small").mkdir()
    assert find_scenario("small")[1] == "small.scenario"


def test_a_missing_file_suggests_the_nearest_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "web.scenario").write_text("{}")
    with pytest.raises(UsageError, match=f"did you mean {tmp_path}/web.scenario"):
        find_scenario(str(tmp_path / "web.scenari"))


def test_a_missing_scenario_suggests_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        find_scenario("delte_only.scenario")
    message = str(caught.value)
    assert message.startswith("delte_only.scenario: no such file or canned scenario")
    assert "did you mean delete_only? canned scenarios: very_small, small, medium" in message
    assert message.endswith(", ".join(CANNED))
    with pytest.raises(UsageError, match="did you mean zero_byte"):
        find_scenario("zero_byte_uplod")  # an old name


@pytest.mark.parametrize(
    ("old", "ours"),
    [
        ("very_small_test", "very_small"),
        ("small_test_scenario", "small"),
        ("scenarios/small_test.scenario", "small"),
        ("Small_test_scenario", "small"),
        ("large_test", "large"),
        ("zero_byte_upload.scenario", "zero_byte"),
    ],
)
def test_old_names_are_known_with_a_note_on_what_is_run(old: str, ours: str) -> None:
    found = find_scenario(old)
    assert found.source == f"{ours}.scenario"
    assert f"this runs the canned scenario {ours}, whose sizes and counts differ" in found.note
    assert "\n" not in found.note


def test_the_documents_name_them_in_the_same_order() -> None:
    for name in ("README.rst", "docs/reference/scenarios.rst"):
        text = CHECKOUT.joinpath(name).read_text()
        places = [text.index(f"``{canned}``") for canned in CANNED]
        assert places == sorted(places), name


def test_an_unreadable_file_is_reported_with_the_reason(elsewhere: Path) -> None:
    elsewhere.joinpath("loop").symlink_to("loop")
    with pytest.raises(UsageError, match="loop: "):
        find_scenario("loop")
