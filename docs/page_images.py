"""The pictures of the page: a model of hotels with decoys, its service, and a browser that looks.

    python docs/page_images.py

Needs Chromium and the package playwright. Writes docs/images/page-*.png.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import setwise as sw

IMAGES = Path(__file__).parent / "images"
EXAMPLE = 19  # whose B is a decoy of A: a little dearer and a little worse
IMPROVED = 13  # to which a decoy of A is added


def hotels() -> sw.Choices:
    """Searches with three hotels each; the third is a decoy, a compromise or a near copy."""
    drawn = sw.datasets.generate("decoy", sets=6000, attraction=2.0, compromise=1.5).columns
    table = {
        "search": drawn["set_id"],
        "booked": drawn["chosen"],
        "price": np.round(140 - 16 * (drawn["x2"] - 5)),
        "rating": np.round(7.5 + 0.22 * (drawn["x1"] - 5), 2),
    }
    return sw.read(table, set="search", chosen="booked")


LABELS = {"price": "price (€)", "rating": "guest rating"}


@contextmanager
def served(model: Path) -> Iterator[str]:
    """The address of a service of the model."""
    command = [sys.executable, "-m", "setwise", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://[\w.:]+", process.stderr.readline())
        assert found is not None
        yield found[0]
        process.terminate()


def shown(browser: Browser, address: str, width: int, height: int, scheme: str) -> Page:
    """The page at the example."""
    page = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme=scheme,  # type: ignore[arg-type]
        device_scale_factor=1 if width > 600 else 2,
    )
    page.goto(address)
    page.select_option("#example", str(EXAMPLE))
    page.wait_for_timeout(1000)
    return page


def keep(picture: bytes, name: str) -> None:
    """In 256 colours, which the page hardly exceeds: a third of the bytes."""
    image = Image.open(BytesIO(picture)).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(IMAGES / name, optimize=True)


def take(browser: Browser, address: str) -> None:
    """A desk with B made cheap enough to be no decoy any more, and a phone without B."""
    for scheme in ("light", "dark"):
        desk = shown(browser, address, 1400, 900, scheme)
        desk.click("li[data-item=B] .pick")
        desk.fill("#item-price", "130")
        desk.locator("h1").click()
        desk.wait_for_timeout(1000)
        keep(desk.screenshot(full_page=True), f"page-desktop-{scheme}.png")
        phone = shown(browser, address, 400, 850, scheme)
        phone.click("li[data-item=B] .remove")
        phone.locator("h1").click()
        phone.wait_for_timeout(1000)
        keep(phone.screenshot(), f"page-phone-{scheme}.png")


def take_improvement(browser: Browser, address: str) -> None:
    """The card that proposes a change, alone."""
    desk = shown(browser, address, 1400, 900, "light")
    desk.select_option("#example", str(IMPROVED))
    desk.click("#improve-open")
    desk.wait_for_selector("#improve-result:not([hidden])")
    desk.locator("h1").click()
    desk.wait_for_timeout(1000)
    keep(desk.locator("#improve").screenshot(), "page-improve.png")


def main() -> None:
    """Fit, serve, look."""
    choices = hotels()
    model = sw.SDA().fit(choices)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hotels.setwise"
        reference = sw.estimators.reference_mnl(model, choices)
        display = sw.choices.Display.of(choices, LABELS)
        model.save(path, sample=choices, reference=reference, display=display)
        with served(path) as address, sync_playwright() as play:
            chromium = shutil.which("chromium") or shutil.which("google-chrome")
            options = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses root with it
            browser = play.chromium.launch(executable_path=chromium, args=options)
            take(browser, address)
            take_improvement(browser, address)
            browser.close()


if __name__ == "__main__":
    main()
