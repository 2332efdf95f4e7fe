from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import gevent
import msgpack  # noqa: F401
import pytest
import zmq  # noqa: F401

from ssbench import __version__
from ssbench.host import metrics


def test_facts_fit_into_a_header() -> None:
    facts = metrics.facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cpu_count"] >= 1
    assert facts["memory_bytes"] > 1 << 20
    assert facts["python"].split()[1].count(".") == 2
    assert len(facts["load_average"]) == 3


def test_facts_contain_no_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ST_KEY", "s3cr3t-of-mine")
    assert "s3cr3t-of-mine" not in repr((metrics.facts(), metrics.versions()))


def test_versions_of_relevant_packages() -> None:
    versions = metrics.versions()
    assert versions["ssbench"] == __version__
    assert {"python", "gevent", "zmq", "msgpack"} <= versions.keys()
    assert versions["gevent"] == gevent.__version__ == metadata.version("gevent")
    assert all(isinstance(version, str) for version in versions.values())


def test_a_package_that_is_not_loaded_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gevent")
    assert "gevent" not in metrics.versions()


def test_the_cpu_model_of_linux(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Abacus 9\nmodel name\t: Abacus 9\n")
    assert metrics.cpu_model(cpuinfo) == "Abacus 9"
    assert isinstance(metrics.cpu_model(tmp_path / "missing"), str)
