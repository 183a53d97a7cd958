"""A real browser without a window: what a page looks like to it, what it asks for, what it complains about."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver

from tests.support.command import wait_for
from tests.support.skips import need

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
DESKTOP, PHONE = (1280, 900), (390, 844)


class Browser:
    """Chromium, driven over WebDriver."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def show(self, width: int, height: int, *, scheme: str = "light", medium: str = "screen") -> None:
        """Be a window of that size, light or dark, on the screen or on paper."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})

    def open(self, url: str) -> None:
        """Load a page, and wait until every picture is drawn."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(url)
        wait_for(lambda: self.run("return document.documentElement.dataset.ready") or None)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        """Everything on the console since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> set[str]:
        """URLs that were asked for since the page was opened, those that need no connection aside."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]
        return {url for url in asked if not url.startswith(("data:", "blob:", "about:"))}


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a fresh profile; skips the test where there is none."""
    binary = next(filter(None, map(shutil.which, _BROWSERS)), None)
    need("chromedriver", *([] if binary else _BROWSERS[:1]))
    options = webdriver.ChromeOptions()
    options.binary_location = binary or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # A short path: Chromium has a socket in there, and leaves things in the folder for temporary files.
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        for option in (*_OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        service = webdriver.ChromeService(shutil.which("chromedriver"), env={**os.environ, "TMPDIR": profile})
        found = webdriver.Chrome(options=options, service=service)
        try:
            yield Browser(found)
        finally:
            found.quit()
