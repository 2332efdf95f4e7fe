"""--influx with Debian's InfluxDB: it has what the stat file has."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import Commands, until
from tests.ports import held_port
from tests.servers.programs import path_of

CONFIG = """
reporting-disabled = true
bind-address = "127.0.0.1:{backup}"
[meta]
  dir = "{place}/meta"
[data]
  dir = "{place}/data"
  wal-dir = "{place}/wal"
[http]
  bind-address = "127.0.0.1:{port}"
"""


@contextmanager
def influxdb(place: Path) -> Iterator[str]:
    """The URL of an InfluxDB with an empty database x."""
    port = held_port()
    config = place / "influx.conf"
    config.write_text(CONFIG.format(place=place, port=port, backup=held_port()))
    url = f"http://127.0.0.1:{port}"
    with (place / "influx.log").open("wb") as log:
        process = subprocess.Popen(
            [path_of("influxd"), "-config", str(config)], stdout=log, stderr=log
        )
    try:
        until("InfluxDB listens", lambda: listens(url))
        asked(url, "CREATE DATABASE x")
        yield url
    finally:
        process.terminate()
        process.wait(30)


def listens(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/ping", timeout=30):
            return True
    except OSError:
        return False


def asked(url: str, query: str) -> list[dict[str, Any]]:
    """The rows of a query."""
    data = urllib.parse.urlencode({"db": "x", "q": query}).encode()
    with urllib.request.urlopen(f"{url}/query", data, timeout=30) as response:
        (result,) = json.load(response)["results"]
    return [
        dict(zip(series["columns"], row, strict=True))
        for series in result.get("series", ())
        for row in series["values"]
    ]


@pytest.mark.program("influxd")
def test_influxdb_has_the_counts_of_the_stat_file(commands: Commands, tmp_path: Path) -> None:
    path = commands.scenario(name="a b")
    with influxdb(tmp_path) as url:
        write = f"{url}/write?db=x"
        ended = commands.run("-f", path, "--noop", "-o", "300", "--influx", write).fine()
        (last,) = asked(url, "SELECT last(done) FROM ssbench WHERE phase = 'run'")
        operations = asked(
            url,
            "SELECT last(count) FROM ssbench_operations WHERE phase = 'run' GROUP BY operation",
        )
        events = asked(url, "SELECT event, scenario FROM ssbench_run")
        missing = f"{url}/write?db=missing"
        refused = commands.run("-f", path, "--noop", "--influx", missing).one_line()
    assert last["last"] == 300
    assert sum(row["last"] for row in operations) == ended.stats.total().count == 300
    assert [row["event"] for row in events] == ["begin", "end"]
    assert {row["scenario"] for row in events} == {path.stem}
    assert "HTTP 404" in refused
    assert "database not found" in refused
