"""A real browser for tests: headless Chromium, driven through its DevTools protocol."""

import base64
import contextlib
import json
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers have little of it, and a tab that finds none left dies
    "--disable-breakpad",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
STARTS = 3  # a browser that does not come up gets so many chances
SECONDS = 300.0  # to start, and for any answer
LEAVING = ("Execution context was destroyed", "Cannot find context", "Inspected target navigated")  # to another page


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One tab of a browser with a fresh profile. Use it in a `with` block."""

    def __init__(self, profile: Path):
        self.profile = profile
        self.errors: list[str] = []  # exceptions and errors that the page told the console
        self.requests: list[str] = []  # addresses that the page asked for
        self._number = 0

    def __enter__(self) -> "Chromium":
        for _ in range(STARTS - 1):
            with contextlib.suppress(Exception):
                return self._start()
        return self._start()

    def _start(self) -> "Chromium":
        import websocket

        program = find_chromium()
        assert program is not None
        shutil.rmtree(self.profile, ignore_errors=True)
        command = [program, *FLAGS, f"--user-data-dir={self.profile}", "--no-startup-window"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port, path = self._address()
            self.socket = websocket.create_connection(
                f"ws://127.0.0.1:{port}{path}", timeout=SECONDS, suppress_origin=True
            )
            self.session: str | None = None
            target = self.send("Target.createTarget", url="about:blank")
            attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
            self.session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.send(f"{domain}.enable")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.session = None
            self.send("Browser.close")
            self.process.wait(timeout=20)
        except Exception:
            self.process.kill()
            self.process.wait()
        self.socket.close()

    def _address(self) -> tuple[str, str]:
        file = self.profile / "DevToolsActivePort"
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            lines = file.read_text().split() if file.exists() else []
            if len(lines) == 2:
                return lines[0], lines[1]
            if self.process.poll() is not None:
                raise RuntimeError(f"chromium ended with code {self.process.returncode}")
            time.sleep(0.05)
        raise RuntimeError("chromium did not start")

    def send(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and wait for its answer; events that come first are noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.errors.append(str([a.get("description", a.get("value")) for a in parameters["args"]]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression (a promise is waited for)."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def open(self, page: Path) -> None:
        """Open a report from disk and wait until it is ready."""
        self.send("Page.navigate", url=page.resolve().as_uri())
        self.wait(f"location.href === {json.dumps(page.resolve().as_uri())} && document.documentElement?.dataset.ready")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + SECONDS
        while not self._holds(condition):
            if time.monotonic() > end:
                raise RuntimeError(f"waited in vain for {condition}; the page said {self.errors}")
            time.sleep(0.02)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.run(condition))
        except RuntimeError as error:
            if any(reason in str(error) for reason in LEAVING):
                return False
            raise

    def view(self, width: int, height: int, dark: bool = False, phone: bool = False) -> None:
        """Size of the window and the colours that the system prefers."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        colours = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=colours)

    def picture(self, path: Path, whole: bool = False) -> None:
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
