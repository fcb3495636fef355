"""A headless browser for the page, where this machine has one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900")
PATIENCE = 20.0  # seconds; only a failing test waits so long


def needs_browser() -> tuple[str, str]:
    """The paths of the browser and of its driver; skips the test when one is missing."""
    pytest.importorskip("selenium")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    return browser, driver


@contextmanager
def open_browser() -> Iterator[Any]:
    from selenium import webdriver

    browser, driver = needs_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for switch in SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield opened
    finally:
        opened.quit()


class Page:
    """The page as a user sees it.

    Args:
        driver: the browser.
        address: of the server.
    """

    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        driver.get(f"{address}/")
        self.wait(lambda: self.text("#model") or self.text("#problem"))

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        """The text of an element, shown or not."""
        return self.one(selector).get_property("textContent").strip()

    def click(self, selector: str) -> None:
        self.one(selector).click()

    def type(self, *keys: str) -> None:
        """Press keys wherever the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def js(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: Callable[[], Any]) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, PATIENCE, 0.02).until(lambda _: condition())

    def ask(self, text: str, *, button: str = "#send") -> None:
        """Send a message, and wait until it is answered."""
        self.one("#message").send_keys(text)
        self.click(button)
        self.wait(self.is_idle)

    def is_idle(self) -> bool:
        return self.one("#log").get_attribute("aria-busy") == "false"

    def choose(self, field: str, path: Path) -> None:
        """Choose a file; fields for files are hidden behind buttons."""
        self.js("document.querySelector(arguments[0]).hidden = false", field)
        self.one(field).send_keys(str(path))

    def problems(self) -> list[str]:
        """What the browser complained about, violations of the security policy among it."""
        return [entry["message"] for entry in self.driver.get_log("browser")]
