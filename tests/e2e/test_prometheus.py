"""The dashboard of deploy/grafana: Debian's Prometheus, with the configuration beside it."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import ROOT, Commands, free_ports, until
from tests.fakes.hostile_swift import HostileSwift, of_the_run
from tests.fakes.server_behaviours import keep, saying
from tests.ports import held_port
from tests.servers.programs import path_of

FOLDER = ROOT / "deploy" / "grafana"
VARIABLES = {"$__rate_interval": "10s", "$master": ".*", "$worker": ".*"}


@contextmanager
def prometheus(place: Path, targets: dict[str, int]) -> Iterator[str]:
    """The URL of a Prometheus with the configuration of the dashboard, for other ports."""
    text = (FOLDER / "prometheus.yml").read_text()
    for target, port in targets.items():
        assert target in text
        text = text.replace(target, f"127.0.0.1:{port}")
    config = place / "prometheus.yml"
    config.write_text(text)
    own = f"127.0.0.1:{held_port()}"
    with (place / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [path_of("prometheus"), f"--config.file={config}", f"--web.listen-address={own}",
             f"--storage.tsdb.path={place / 'data'}"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield f"http://{own}"
    finally:
        process.terminate()
        process.wait(30)


def expressions() -> list[str]:
    """Those of all panels, as Grafana would send them."""
    board = json.loads((FOLDER / "ssbench.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    for name, value in VARIABLES.items():
        found = [each.replace(name, value) for each in found]
    assert len(found) > 15
    assert not [each for each in found if "$" in each]
    return found


def asked(url: str, expression: str) -> list[Any]:
    """The values of an expression now; none before Prometheus listens."""
    query = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=30) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        if error.code == 503:  # it is starting
            return []
        raise AssertionError(f"{expression}: {error.read()!r}") from error
    except OSError:
        return []
    found: list[Any] = [
        value for value in answer["data"]["result"] if value["value"][1] not in ("NaN", "+Inf")
    ]
    return found


@pytest.mark.program("prometheus")
def test_each_panel_shows_a_run(commands: Commands, tmp_path: Path) -> None:
    ports = free_ports()
    of_master, of_worker = held_port(), held_port()
    busy = saying(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", then=keep)
    with (
        HostileSwift({"busy": busy, "well": None}, of_the_run("PUT")) as swift,
        prometheus(tmp_path, {"127.0.0.1:13584": of_master, "127.0.0.1:13585": of_worker}) as url,
    ):
        run = commands.start_run(
            "-f", commands.scenario(), "-r", "120", "--rate", "50", "--retries", "0",
            "-A", swift.auth_url, "-U", "a:b", "-K", "secret", "--metrics-port", of_master,
            workers=None, ports=ports,
        )  # fmt: skip
        commands.worker(
            *ports, "--metrics-port", of_worker, "--exit-with-master", "--retries", "0", "far"
        )
        missing = expressions()

        def all_shown() -> bool:
            assert run.process.poll() is None, run.talk()
            missing[:] = [each for each in missing if not asked(url, each)]
            return not missing

        try:
            until("data of all panels", all_shown)
        except AssertionError as error:
            raise AssertionError(f"no data: {missing}") from error
        (due,) = asked(url, "ssbench_due_operations_per_second")
        (worker,) = asked(url, "ssbench_worker_info")
        assert due["value"][1] == "50"
        assert worker["metric"]["worker"] == "far"
        run.interrupt()
        run.wait()
