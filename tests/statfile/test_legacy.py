"""Files of 0.3.9: what is read of them, without their secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ssbench.core.errors import StatFileError
from ssbench.core.model import NONE_NS, Result
from ssbench.core.records import ResultBatch, RunFooter, RunHeader, WorkerRecord
from ssbench.core.scenario.scenario import Scenario
from ssbench.statfile import read
from ssbench.statfile.legacy import LegacyRun, collect_secrets, safe_detail
from tests.fakes.batches import result_rows
from tests.statfile.samples import OLD, old_result, old_scenario, write_old


class Old:
    """An old file, read."""

    def __init__(self, path: Path) -> None:
        with read(path) as run:
            self.records = list(run)
            self.damage, self.notes, self.complete = run.damage, run.notes, run.complete
        self.rows = [
            Result(*row)
            for record in self.records
            if isinstance(record, ResultBatch)
            for row in result_rows(record)
        ]

    def all(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "old.stat.gz"


@pytest.mark.parametrize("name", ["real", "noop"])
def test_the_scenario_can_be_read_as_one_of_today(name: str) -> None:
    header = Old(OLD / f"{name}.stat.gz").all(RunHeader)[0]
    scenario = Scenario.from_json(json.dumps(header.scenario))
    assert scenario.name == "Small test scenario"
    assert scenario.user_count == {"real": 4, "noop": 24}[name]
    assert [size.name for size in scenario.sizes] == ["zero", "tiny", "small"]
    assert header.driver == {"real": "swift", "noop": "noop"}[name]
    assert header.ssbench_version == "0.3.9"
    assert header.scenario_given["operation_count"] == 500


def test_missing_latencies_are_none_and_reported(path: Path) -> None:
    write_old(path, [old_result(last_byte_latency=0.0), old_result(last_byte_latency=None)])
    old = Old(path)
    assert [row.last_byte_ns for row in old.rows] == [NONE_NS, NONE_NS]
    assert [row.start_ns for row in old.rows] == [500_000_000] * 2
    assert old.notes == ["latencies of exactly 0, taken for none: 1"]


def test_an_unknown_size_class_is_added(path: Path) -> None:
    write_old(path, [old_result(size_str="vast")])
    old = Old(path)
    assert old.rows[0].size_class == 3
    header = old.all(RunHeader)[0]
    assert [size["name"] for size in header.scenario["sizes"]] == ["zero", "tiny", "small", "vast"]
    assert header.scenario["initial_files"]["vast"] == 0


def test_workers_are_distinguished_by_any_id(path: Path) -> None:
    write_old(path, [old_result(worker_id=7), old_result(worker_id="b"), old_result(worker_id=7)])
    old = Old(path)
    assert [(w.index, w.worker_id) for w in old.all(WorkerRecord)] == [(0, "7"), (1, "b")]
    assert [(b.worker, b.count) for b in old.all(ResultBatch)] == [(0, 2), (1, 1)]


def test_many_results_come_in_several_batches(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssbench.statfile.legacy.CHUNK", 2)
    write_old(path, [old_result(completed_at=1000.0 + i) for i in range(5)])
    old = Old(path)
    assert [batch.count for batch in old.all(ResultBatch)] == [2, 2, 1]
    assert [row.number for row in old.rows] == [1, 2, 3, 4, 5]
    assert old.all(RunFooter)[0].run_seconds == 4.25


def test_byte_strings_of_python_2_are_read(path: Path) -> None:
    scenario = old_scenario() | {"name": "Größe".encode("latin-1")}
    write_old(path, [], scenario)
    assert Old(path).all(RunHeader)[0].scenario["name"] == "Größe"


def test_a_run_without_results_is_read(path: Path) -> None:
    write_old(path, [])
    old = Old(path)
    assert old.rows == []
    assert old.complete


KEYS = ["s3cr3t", "pass word/+", "clé'à\"", "x", "a\nb", "*", "\\", "%41", "schlüssel" * 9]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("coding", ["utf-8", "latin-1"])
def test_the_account_key_is_not_exposed(path: Path, key: str, coding: str) -> None:
    auth = {"key": key.encode(coding), "os_options": {"auth_token": "t0k3n" + key}, "user": "u:u"}
    texts = [
        f"GET http://x/?k={quote(key)} with {key}",
        f"{key!r} refused",
        f"{{'auth_kwargs': {{'key': {key!r}}}}}",
        "Traceback\n" + key + "\nValueError: " + key,
        f"t0k3n{key} is no good",
        "X-Auth-Token: AUTH_tk0123456789abcdef",
    ]
    write_old(
        path,
        [
            old_result(
                exception=text.encode(coding), traceback=text, auth_kwargs=auth, trans_id=...
            )
            for text in texts
        ],
    )
    old = Old(path)
    assert len(old.rows) == len(texts)
    for row in old.rows:
        if len(key) > 1:
            assert key not in repr(row.detail)
            assert key not in row.detail
            assert quote(key) not in row.detail
        else:
            assert key not in row.detail.replace("***", "").replace("unknown exception", "")
        assert "AUTH_tk" not in row.detail
        assert "t0k3n" not in row.detail
        assert "\n" not in row.detail
    assert "s3cr3t" not in repr(old.records)


def test_a_failed_result_without_auth_kwargs_quotes_no_key_of_another(path: Path) -> None:
    write_old(
        path,
        [
            old_result(auth_kwargs={"key": "s3cr3t"}),
            old_result(exception="ValueError('s3cr3t')"),
        ],
    )
    assert [row.detail for row in Old(path).rows] == ["", "ValueError('***')"]


def test_an_invalid_scenario_is_rejected() -> None:
    for items in ([], [{}], [{b"name": b"x"}], [[1]]):
        with pytest.raises(StatFileError, match="no stat file"):
            LegacyRun(iter(items), [], [])


# Failed results, without secrets


def test_only_the_last_line_is_shown_escaped() -> None:
    assert safe_detail("Traceback\n  File x\nValueError: \x1b[2J\n", []) == "ValueError: \\x1b[2J"
    assert safe_detail(" \n ", []) == "unknown exception"
    assert len(safe_detail("x" * 9999, [])) <= 300


def test_secrets_are_found_at_any_depth_and_the_longest_first() -> None:
    secrets: set[str] = set()
    collect_secrets({b"a": [b"key", {b"b": b"key-and-more"}], b"c": 4711, b"d": b""}, secrets)
    assert {"key", "key-and-more", "4711"} <= secrets
    assert "" not in secrets
    assert safe_detail("key-and-more key 4711", secrets) == "*** *** ***"


def test_an_exception_that_quotes_the_job_is_reduced_to_its_class() -> None:
    assert safe_detail("KeyError({'auth_kwargs': {'key': 'k'}})", []) == "KeyError"
    assert safe_detail("{'auth_kwargs': 1}", []) == "unknown exception"
