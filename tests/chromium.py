"""Chromium without a window, driven by the Chrome DevTools Protocol over two pipes.

Such pipes need no package and no port. Source: chromedevtools.github.io/devtools-protocol, and
`--remote-debugging-pipe`: messages are JSON that ends in a zero byte, read from descriptor 3 and
written to 4.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections import deque
from contextlib import suppress
from functools import cache
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60  # for whatever it is asked; a machine may be busy


@cache
def find_chromium():
    """Return the path of a browser that runs, or None.

    Some systems have a script of that name which tells how to install it.
    """
    for path in filter(None, map(shutil.which, NAMES)):
        version = subprocess.run([path, "--version", "--no-sandbox"], capture_output=True)
        if version.returncode == 0:
            return path
    return None


class Chromium:
    """A browser with one page; a context manager."""

    def __init__(self, profile, size=(1000, 700)):
        """Start it; `profile` is a folder of its own."""
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        # descriptors 3 and 4 may be among these, so move away what is to become them
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (read_there, write_there)]
        os.close(read_there)
        os.close(write_there)
        self._read, self._write = read_here, write_here
        self._pending, self._text = deque(), b""
        arguments = [
            find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-dev-shm-usage", "--disable-background-networking", "--disable-sync",
            "--force-device-scale-factor=1", "--force-color-profile=srgb", "--hide-scrollbars",
            f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}",
            "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        quiet = os.open(os.devnull, os.O_WRONLY)
        self._process = os.posix_spawn(
            arguments[0],
            arguments,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, quiet, 1),
                (os.POSIX_SPAWN_DUP2, quiet, 2),
                (os.POSIX_SPAWN_DUP2, ends[0], 3),  # which may be `quiet`, so not before it
                (os.POSIX_SPAWN_DUP2, ends[1], 4),
            ],
            setpgroup=0,
        )
        for end in (*ends, quiet):
            os.close(end)
        self._last = 0
        self._session = None
        self.events = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(*size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._write)  # it ends when nobody speaks to it any more
        with suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._read)

    def call(self, method, **params):
        """Return the answer to a command; RuntimeError if it is refused."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                break
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self):
        until = time.monotonic() + SECONDS
        while not self._pending:
            if not select.select([self._read], [], [], max(until - time.monotonic(), 0))[0]:
                raise TimeoutError(f"Chromium says nothing for {SECONDS} s")
            data = os.read(self._read, 1 << 16)
            if not data:
                raise RuntimeError("Chromium has ended")
            *messages, self._text = (self._text + data).split(b"\0")
            self._pending.extend(messages)
        return json.loads(self._pending.popleft())

    def open(self, page):
        """Show a file, once it is loaded; events from before are forgotten."""
        self.events.clear()
        self.call("Page.navigate", url=Path(page).resolve().as_uri())
        self.wait_for("document.readyState === 'complete'")

    def resize(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def media(self, **features):
        """Set media features, as prefers_color_scheme="dark"."""
        named = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", features=named)

    def run(self, expression):
        """Return the value of a JavaScript expression, of a promise when it is fulfilled."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait_for(self, expression):
        """Wait until an expression is true."""
        until = time.monotonic() + SECONDS
        while not self.run(f"Boolean({expression})"):
            if time.monotonic() > until:
                raise TimeoutError(f"not true within {SECONDS} s: {expression}")
            time.sleep(0.02)

    def mouse(self, kind, x, y, **more):
        """Send a mouse event: moved, pressed, released or wheel."""
        name = "mouseWheel" if kind == "wheel" else f"mouse{kind.capitalize()}"
        self.call("Input.dispatchMouseEvent", type=name, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("moved", x, y)
        self.mouse("pressed", x, y, button="left", clickCount=1)
        self.mouse("released", x, y, button="left", clickCount=1)

    def drag(self, start, end):
        self.mouse("moved", *start)
        self.mouse("pressed", *start, button="left", buttons=1, clickCount=1)
        self.mouse("moved", *end, button="left", buttons=1)
        self.mouse("released", *end, button="left", clickCount=1)

    def key(self, key, shift=False):
        """Press and release a key, by its KeyboardEvent.key."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind, key=key, modifiers=8 * shift, **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    def screenshot(self):
        """Return what is to be seen as the bytes of a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def complaints(self):
        """Return what the console, the log and uncaught exceptions have said since `open`."""
        self.run("0")  # what was said before has arrived when this is answered
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in kinds]

    def requests(self):
        """Return the addresses asked for since `open`."""
        self.run("0")
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
