"""The page: its parts are files of this package, and what it shows follows them, in base64.

No part names an address, and the content security policy forbids requests, whatever is embedded.
"""

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, BinaryIO

from pwcflow.viewer.encoding import EncodedFlow

_PARTS = files("pwcflow.viewer") / "page"
_SCRIPTS = (
    "payload.js", "colors.js", "derived.js", "geometry.js", "stage.js", "legend.js", "probe.js",
    "player.js", "controls.js", "main.js",
)  # fmt: skip
_DATA = "application/octet-stream"


class PageWriter:
    """Writes a page, piece by piece."""

    def __init__(self, file: BinaryIO, title: str, settings: dict[str, Any]) -> None:
        """Write all but the data.

        Args:
            file: what to write into.
            title: the heading, any text.
            settings: what `main.js` reads: "flows", "scale", "fps" and "wheel".
        """
        self._file = file
        script = "\n".join(_text_of(name) for name in _SCRIPTS)
        script = f'"use strict";\n(() => {{\n{script}}})();\n'
        style = _text_of("page.css")
        html = Template(_text_of("page.html")).substitute(
            title=escape(title),
            style=style,
            style_hash=_hash_of(style),
            script=script,
            script_hash=_hash_of(script),
            # "</script>" and "<!--" would end or change the element that they are in
            settings=json.dumps(settings).replace("<", "\\u003c"),
        )
        self._write(html)

    def picture(self, key: str, webp: bytes) -> None:
        """Write a picture, which flows name by its key."""
        self._data(f"picture-{key}", {}, webp)

    def flow(self, index: int, flow: EncodedFlow, facts: dict[str, Any]) -> None:
        """Write a flow, with what is known of it; None is left out."""
        own = {
            "width": flow.width,
            "height": flow.height,
            "step": flow.step_px,
            "unknown": flow.unknown,
        }
        self._data(f"flow-{index}", {**own, **facts}, flow.data)

    def finish(self) -> None:
        """Write the end."""
        self._write("</body>\n</html>\n")

    def _data(self, name: str, facts: dict[str, Any], data: bytes) -> None:
        told = "".join(
            f' data-{key}="{escape(str(value))}"'
            for key, value in facts.items()
            if value is not None
        )
        self._write(f'<script type="{_DATA}" id="{name}"{told}>')
        self._file.write(base64.b64encode(data))
        self._write("</script>\n")

    def _write(self, text: str) -> None:
        # names of files need not be text: what of them is none is shown as its code
        self._file.write(text.encode("utf-8", "backslashreplace"))


def _text_of(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    """Return what a content security policy calls a script or style that may be run."""
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
