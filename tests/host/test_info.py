from __future__ import annotations

import sys
from pathlib import Path

import msgpack  # noqa: F401
import pytest
import zmq  # noqa: F401

from ssbench.host import metrics


def test_facts_contain_no_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ST_KEY", "s3cr3t-of-mine")
    assert "s3cr3t-of-mine" not in repr((metrics.facts(), metrics.versions()))


def test_a_package_that_is_not_loaded_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gevent")
    assert "gevent" not in metrics.versions()


def test_the_cpu_model_of_linux(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Abacus 9\nmodel name\t: Abacus 9\n")
    assert metrics.cpu_model(cpuinfo) == "Abacus 9"
    assert isinstance(metrics.cpu_model(tmp_path / "missing"), str)
