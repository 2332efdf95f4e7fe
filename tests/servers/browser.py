"""A Chromium without a window, driven by selenium: Debian's chromium and chromium-driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers.programs import path_of

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


class Browser:
    """One tab."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, width: int, *, dark: bool = False, media: str = "screen") -> None:
        """Open a file in a window of that width, as a phone has it below 600."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": [scheme]}
        )
        self.driver.get(page.as_uri())

    def run(self, script: str) -> Any:
        """What a piece of JavaScript returns."""
        return self.driver.execute_script(script)

    def errors(self) -> list[str]:
        """What the console has of errors since it was asked last, but those of its own first tab,
        whose fonts are late on a slow host."""
        messages = [each["message"] for each in self.driver.get_log("browser")]
        return [message for message in messages if not message.startswith("chrome://")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since it was asked last."""
        events = (
            json.loads(each["message"])["message"] for each in self.driver.get_log("performance")
        )
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser whose profile is in that folder."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService  # loads slowly

    options = ChromeOptions()
    options.binary_location = path_of("chromium")
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 f"--user-data-dir={folder}", "--disable-background-networking"):  # fmt: skip
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, ChromeService(path_of("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
