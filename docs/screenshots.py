"""Draws the pictures of docs/how-to/watching.rst again: ``make screenshots``.

A run of half a minute against a temporary Swift, with the live page open in Chromium. Terminals are
drawn by rich, as the run's display draws them.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import threading
from pathlib import Path

from rich.console import Console

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import ssbench  # noqa: E402
from ssbench.core.live import RunProgress  # noqa: E402
from ssbench.core.model import Phase  # noqa: E402
from ssbench.live.dashboard import Dashboard  # noqa: E402
from ssbench.live.watch import TITLES, LiveState, Sink, Watch  # noqa: E402
from ssbench.live.web import LivePage  # noqa: E402
from ssbench.report import render_html  # noqa: E402
from ssbench.report.run import of_run  # noqa: E402
from ssbench.runner.results import read_stats  # noqa: E402
from ssbench.runner.stop import Stop  # noqa: E402
from tests.servers.browser import Browser, browser  # noqa: E402

PICTURES = HERE / "pictures"
SECONDS, TAKEN_S = 30, 24
SIZES = ((80, 24), (160, 50))  #: columns and lines of the terminals
SCENARIO = {
    "name": "Mixed sizes",
    "sizes": [
        {"name": "tiny", "size_min": 4096, "size_max": 4096},
        {"name": "large", "size_min": 1_000_000, "size_max": 2_000_000},
    ],
    "initial_files": {"tiny": 60, "large": 20},
    "operations": {"create": 2, "read": 6, "update": 1, "delete": 1},
    "run_seconds": SECONDS,
    "user_count": 8,
    "rate": 40,
}


class Camera(Sink):
    """Keeps the state of the run at TAKEN_S."""

    def __init__(self) -> None:
        self.progress: RunProgress | None = None
        self.taken = threading.Event()

    def show(self, state: LiveState) -> None:
        progress = state.progress
        if state.phase is Phase.RUN and progress and progress.elapsed_s >= TAKEN_S:
            self.progress = self.progress or progress
            self.taken.set()


def main() -> None:
    """Run, and draw all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        stop, camera = Stop(), Camera()
        page, watch = LivePage(("127.0.0.1", 0), stop), Watch()
        watch.add(page)
        watch.add(camera)
        results: list[ssbench.RunResult] = []

        def run() -> None:
            results.append(
                ssbench.run(
                    SCENARIO, storage="embedded-swift", workers=2, stats_file="run.stat.gz",
                    observers=[watch], stop=stop,
                )
            )  # fmt: skip
            camera.taken.set()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            with browser(Path(folder) / "profile") as chromium:
                chromium.driver.get(page.url)
                camera.taken.wait()
                _take(chromium, "live-page", 1000, 900)
                thread.join()
                assert camera.progress is not None, "the run ended too early"
                stats = read_stats("run.stat.gz")
                made = of_run(stats, stats_file="run.stat.gz")
                Path("report.html").write_text(render_html(made))
                chromium.driver.get(Path("report.html").absolute().as_uri())
                _take(chromium, "report", 1000, 1000)
                for columns, lines in SIZES:
                    drawn = _terminal(camera.progress, columns, lines)
                    Path("terminal.html").write_text(drawn)
                    chromium.driver.get(Path("terminal.html").absolute().as_uri())
                    box = chromium.run(
                        "const box = document.querySelector('svg').getBoundingClientRect();"
                        "return [box.width, box.height]"
                    )
                    name = f"terminal-{columns}x{lines}"
                    _take(chromium, name, *(round(side) for side in box))
        finally:
            stop()
            thread.join()
            page.stop_serving()


def _terminal(progress: RunProgress, columns: int, lines: int) -> str:
    """A page with the display of a terminal."""
    console = Console(
        file=io.StringIO(), record=True, force_terminal=True, width=columns, height=lines
    )
    console.print(Dashboard(TITLES[Phase.RUN], progress, "", (columns, lines)))
    drawn = console.export_svg(title=f"ssbench, {columns} x {lines}")
    width = columns * 8
    return (
        "<!doctype html><meta charset=utf-8><style>body { margin: 0 }"
        f" svg {{ width: {width}px; display: block }}</style>{drawn}"
    )


def _take(chromium: Browser, name: str, width: int, height: int) -> None:
    """A picture of what the browser shows."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    chromium.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    path = PICTURES / f"{name}.png"
    chromium.driver.save_screenshot(str(path))
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
