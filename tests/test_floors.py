"""Imports go down only: one table of floors, one sentence for each breach."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "ssbench"

#: Room -> what of ssbench, and which outside packages, it may import. The most specific row
#: counts; every file of ssbench/ must have one.
FLOORS: dict[str, tuple[set[str], set[str]]] = {
    "__init__": (set(), set()),
    # ground floor
    "core": (
        {
            "core.columns", "core.content", "core.errors", "core.messages", "core.model",
            "core.operations",
            "core.naming", "core.text", "core.unpacking",
        },
        {"msgpack"},
    ),
    "core.scenario": (
        {"core.errors", "core.model", "core.operations",
            "core.naming", "core.text", "core.scenario"}, set(),
    ),
    "core.load": (
        {
            "core.columns", "core.errors", "core.messages", "core.model", "core.operations",
            "core.naming",
            "core.records", "core.text", "core.live", "core.load", "core.scenario.scenario",
        },
        set(),
    ),
    "core.counts": (
        {"core.columns", "core.errors", "core.model", "core.operations",
            "core.records", "core.counts"}, set(),
    ),
    "core.figures": (
        {
            "core.errors", "core.model", "core.operations",
            "core.records", "core.text", "core.scenario.checks",
            "core.counts", "core.figures",
        },
        set(),
    ),
    # first floor
    "storage": ({"core", "storage.base"}, {"gevent"}),
    "storage.auth": ({"core", "storage.authhttp"}, {"keystoneauth1", "swiftclient"}),
    "storage.authhttp": (
        {"core", "storage.authbounds"}, {"keystoneauth1", "requests", "urllib3"},
    ),
    "storage.authbounds": ({"core"}, {"requests", "urllib3"}),
    "storage.arrival": (set(), {"gevent"}),
    "storage.stream": ({"storage.arrival"}, {"gevent"}),
    "storage.tlsstream": ({"storage.arrival", "storage.stream"}, set()),
    "storage.dial": ({"core", "storage.stream", "storage.tlsstream"}, {"gevent"}),
    "storage.httpparse": ({"core"}, set()),
    "storage.httpbody": ({"core", "storage.stream", "storage.httpparse"}, set()),
    "storage.httpconn": (
        {"core", "storage.stream", "storage.httpbody", "storage.httpparse"}, set(),
    ),
    "storage.httppool": (
        {"core", "storage.dial", "storage.httpbody", "storage.httpconn"}, {"gevent"},
    ),
    "storage.swiftparse": ({"core", "storage.base"}, set()),
    "storage.swiftsite": (
        {"core", "storage.dial", "storage.httppool", "storage.tls"}, set(),
    ),
    "storage.swift": (
        {
            "core", "storage.base", "storage.httpbody", "storage.httpconn", "storage.swiftaccount",
            "storage.swiftparse", "storage.verify",
        },
        set(),
    ),
    "storage.swiftaccount": (
        {
            "core", "storage.httpbody", "storage.httpconn", "storage.httpparse",
            "storage.swiftsite",
        },
        set(),
    ),
    "storage.verify": ({"core", "storage.httpbody"}, {"gevent"}),
    "storage.tls": ({"core"}, set()),
    # The row of such a package is for its docstring: each of its files has one of its own.
    "wire": (set(), set()),
    "wire.ports": ({"core"}, set()),
    "wire.sockets": ({"core", "wire.ports", "wire.yielding"}, {"zmq"}),
    "wire.masterwire": (
        {"core", "wire.ports", "wire.sockets", "wire.key", "wire.doorkeeper", "wire.refusals"},
        {"zmq"},
    ),
    "wire.workerwire": (
        {"core", "wire.ports", "wire.sockets", "wire.key", "wire.doorkeeper", "wire.refusals"},
        {"zmq"},
    ),
    "wire.yielding": (set(), set()),
    "wire.refusals": ({"__init__", "core"}, set()),
    # Who gets in: what is of zmq here has nothing to do with messages.
    "wire.key": ({"core"}, {"zmq"}),
    "wire.doorkeeper": ({"core", "wire.key"}, {"zmq"}),
    "statfile": ({"core", "statfile", "host.ownfolder"}, {"msgpack"}),
    "host": (set(), set()),
    "host.ownfolder": ({"core"}, set()),
    "host.info": ({"__init__", "core"}, {"psutil"}),
    "host.live": ({"core"}, {"psutil"}),
    # second floor
    "worker": (set(), set()),
    "worker.worker": (
        {
            "__init__", "core", "storage", "wire.workerwire", "host.live", "worker.breakdown",
            "worker.duty", "worker.hostwatch", "worker.pulse", "worker.stint", "worker.store",
            "worker.workport",
        },
        {"gevent"},
    ),
    "worker.duty": (
        {
            "core", "wire.ports", "worker.hostwatch", "worker.stint", "worker.store",
            "worker.workport",
        },
        {"gevent"},
    ),
    "worker.workport": ({"wire.workerwire"}, {"gevent"}),
    "worker.breakdown": (set(), set()),
    "worker.hostwatch": ({"core", "host.live"}, {"gevent"}),
    "worker.stint": ({"core", "storage.base", "worker.users", "wire.refusals"}, set()),
    "worker.store": ({"core", "storage.base"}, {"gevent"}),
    "worker.users": ({"core", "storage.base", "worker.agenda"}, {"gevent"}),
    "worker.agenda": ({"core", "worker.alarm"}, set()),
    "worker.alarm": (set(), {"gevent"}),
    "worker.pulse": ({"core", "wire.workerwire"}, set()),
    "master": (set(), set()),
    "master.master": (
        {
            "__init__", "core", "wire.masterwire", "host.live", "master.crew", "master.exchange",
            "master.gathering", "master.hostlog", "master.keeping", "master.phases",
            "master.shift",
        },
        set(),
    ),
    "master.shift": (
        {"core", "master.crew", "master.exchange", "master.keeping", "master.phases"}, set(),
    ),
    "master.exchange": ({"core", "master.crew", "master.keeping", "master.phases"}, set()),
    "master.gathering": ({"core", "wire.masterwire", "master.crew"}, set()),
    "master.keeping": ({"core", "master.phases"}, set()),
    "master.crew": ({"core", "wire.masterwire", "master.phases", "master.renewal"}, set()),
    "master.hostlog": ({"core", "host.live"}, set()),
    "master.phases": ({"core"}, set()),
    "master.renewal": ({"core"}, set()),
    "upkeep": (set(), set()),
    "upkeep.prepare": ({"core", "storage"}, {"gevent"}),
    "upkeep.cleanup": ({"core", "storage", "upkeep.deletions"}, {"gevent"}),
    "upkeep.deletions": ({"core", "storage"}, {"gevent"}),
    "upkeep.resume": ({"core", "storage", "upkeep.deletions"}, {"gevent"}),
    "embedded": ({"__init__", "core", "embedded"}, set()),
    "embedded.server": ({"embedded"}, {"swift", "eventlet"}),
    # third floor
    "report": ({"__init__", "core", "report"}, set()),
    # roof
    "cli": (
        {
            "__init__", "core", "storage", "wire.ports", "wire.key", "wire.masterwire",
            "wire.workerwire", "statfile", "host", "worker.worker", "master.master",
            "master.phases", "upkeep", "embedded", "report", "cli",
        },
        {"rich", "gevent", "setproctitle"},
    ),
}  # fmt: skip

STDLIB_NOT_FOR_CORE = {"socket", "ssl", "os", "time", "threading", "subprocess", "select", "io"}


def room_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def row_for(room: str) -> tuple[set[str], set[str]] | None:
    while room:
        if room in FLOORS:
            return FLOORS[room]
        room = room.rpartition(".")[0]
    return None


def imports_of(path: Path) -> list[str]:
    names = []
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the floor"
            module = node.module or ""
            names += [f"{module}.{alias.name}" for alias in node.names]
    return names


def breaches(room: str, imported: list[str]) -> list[str]:
    row = row_for(room)
    if row is None:
        return [f"ssbench/{room}: no row in the table of floors; add one"]
    ours, outside = row
    found = []
    for name in imported:
        top, _, rest = name.partition(".")
        if top == "ssbench":
            target = rest or "__init__"
            if target == "__version__":
                target = "__init__"
            if not any(target == o or target.startswith(o + ".") for o in ours):
                found.append(f"{room} imports ssbench.{rest}: it may import {sorted(ours)} of ours")
        elif top in sys.stdlib_module_names:
            if room.partition(".")[0] == "core" and top in STDLIB_NOT_FOR_CORE:
                found.append(f"{room} imports {top}: core is pure, without sockets, files, clocks")
        elif top not in outside:
            found.append(
                f"{room} imports {top}: it may import the standard library and {sorted(outside)}"
            )
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=room_of)
def test_imports_go_down_only(path: Path) -> None:
    found = breaches(room_of(path), imports_of(path))
    assert not found, "\n".join(found)


def test_no_row_is_left_of_a_room_that_is_gone() -> None:
    rooms = {room_of(path) for path in ROOT.rglob("*.py")}
    named = set(FLOORS).union(*(ours for ours, _ in FLOORS.values()))
    assert named <= rooms | {"__init__"}


def test_every_file_has_its_tests_in_the_same_place() -> None:
    files = [path.relative_to(ROOT) for path in ROOT.rglob("*.py") if path.name != "__init__.py"]
    tests = ROOT.parent / "tests"
    assert [
        str(file) for file in files if not (tests / file.parent / f"test_{file.name}").exists()
    ] == []


def test_a_breach_is_told_in_a_sentence() -> None:
    assert breaches("core.messages", ["zmq"]) == [
        "core.messages imports zmq: it may import the standard library and ['msgpack']"
    ]
    assert breaches("report.as_text", ["ssbench.worker.worker.Worker"])
    assert breaches("worker.attic", ["ssbench.core.model"]), "a package's row is for its docstring"
    assert breaches("attic", []) == ["ssbench/attic: no row in the table of floors; add one"]
