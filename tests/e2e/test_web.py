"""--web in a whole run: watched, stopped by its button, and its report read."""

from __future__ import annotations

import json
import re
import urllib.request
from urllib.parse import urlsplit

from tests.e2e.commands import Commands, until
from tests.ports import held_port


def test_a_run_is_watched_and_stopped_on_its_page(commands: Commands) -> None:
    path = commands.scenario(crud_profile=[0, 1, 0, 0])
    port = held_port()
    options = ["--noop", "-r", 600, "--think-time", 0.01, "--web", "0", "--metrics-port", port]
    started = commands.start_run("-f", path, *options)
    shown = re.compile(r"The run is shown at (http://127\.0\.0\.1:\d+/)(\?token=\S+)\n")
    until("the page's address", lambda: shown.search(started.talk()))  # and the end of its line
    ((url, token),) = shown.findall(started.talk())
    seen = {}
    with urllib.request.urlopen(f"{url}events{token}", timeout=60) as events:
        for line in events:
            if not line.startswith(b"data: "):
                continue
            seen = json.loads(line[6:])
            progress = seen.get("progress", {})
            if seen["title"] == "Benchmark run" and progress.get("done", 0) > 20:
                break
    assert [*progress["operations"]] == ["READ"]
    assert [row["state"] for row in progress["workers_seen"]] == ["running"] * 2
    origin = {"Origin": f"http://{urlsplit(url).netloc}"}
    request = urllib.request.Request(f"{url}stop{token}", method="POST", headers=origin)
    with urllib.request.urlopen(request, timeout=60) as response:
        assert response.status == 204
    started.wait_for("Its report is shown at ")
    with urllib.request.urlopen(f"{url}report{token}", timeout=60) as response:
        assert "Throughput" in response.read().decode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        metrics = response.read().decode()
    (count,) = re.findall(
        r'operations_total\{.*"READ",phase="run",result="success"\} (.+)', metrics
    )
    assert float(count) >= progress["done"], "the final count"
    started.interrupt()
    ended = started.wait().fine(5)
    assert "stopped on the web page (exit status 5)" in ended.err
