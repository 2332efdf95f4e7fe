from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssbench import __version__
from ssbench.host import info


def test_facts_fit_into_a_header() -> None:
    facts = info.facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cpu_count"] >= 1
    assert facts["memory_bytes"] > 1 << 20
    assert facts["python"].split()[1].count(".") == 2
    assert len(facts["load_average"]) == 3


def test_facts_contain_no_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ST_KEY", "s3cr3t-of-mine")
    assert "s3cr3t-of-mine" not in repr((info.facts(), info.versions()))


def test_versions_of_relevant_packages() -> None:
    versions = info.versions()
    assert versions["ssbench"] == __version__
    assert {"python", "gevent", "zmq", "msgpack"} <= versions.keys()
    assert all(isinstance(version, str) for version in versions.values())


def test_a_missing_package_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "_DISTRIBUTIONS", {"none": "no-such-distribution-of-ours"})
    assert set(info.versions()) == {"ssbench", "python"}


def test_the_cpu_model_of_linux(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Abacus 9\nmodel name\t: Abacus 9\n")
    assert info.cpu_model(cpuinfo) == "Abacus 9"
    assert isinstance(info.cpu_model(tmp_path / "missing"), str)
