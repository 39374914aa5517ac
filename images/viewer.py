"""Make viewer.png: the page that `pwcflow view` writes of the example pair, in Chromium.

Usage, from the folder above: python -m images.viewer
"""

import io
import tempfile
from pathlib import Path

from PIL import Image

from pwcflow.viewer import view
from tests.chromium import Chromium

IMAGES = Path(__file__).parent
WINDOW = 960, 600
DIVIDER = 361, 306
PIXEL = 610, 300  # on the parrot


def main() -> None:
    """Write viewer.png."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = Path(folder) / "page.html"
        frames = [IMAGES / "one.png", IMAGES / "two.png"]
        view([IMAGES / "flow.flo"], page, frames=frames, title="one.png to two.png")
        with Chromium(Path(folder) / "profile", WINDOW) as browser:
            browser.open(page)
            browser.wait_for("document.getElementById('name').textContent")
            browser.drag(DIVIDER, (DIVIDER[0] - 60, DIVIDER[1]))
            browser.click(*PIXEL)
            browser.mouse("moved", WINDOW[0] - 10, WINDOW[1] - 10)
            screenshot = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
    screenshot.save(IMAGES / "viewer.png", optimize=True)


if __name__ == "__main__":
    main()
