"""A small WebDriver client for headless Chromium."""

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import time

import requests

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# The errors about an element of a page that changes, moves or goes at that moment.
PASSING = (
    "stale element reference", "belong to the document", "element click intercepted", "element not interactable", "execution context",
    "context with specified id", "aborted by navigation",
)


class BrowserError(Exception):
    pass


class Browser:
    def __init__(self, address, profile, hosts=""):
        self.http = requests.Session()
        self.http.trust_env = False
        # Chromium runs as root only without its sandbox. The test visits 127.0.0.1 only.
        arguments = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--no-proxy-server", f"--host-resolver-rules={hosts}MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}",
        ]
        options = {"args": arguments, "binary": shutil.which("chromium")}
        self.base = address
        session = self.send("POST", "/session", {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}})
        self.base = f"{address}/session/{session['sessionId']}"
        self.version = session["capabilities"]["browserVersion"]
        self.send("POST", "/timeouts", {"script": 60_000, "pageLoad": 60_000, "implicit": 30_000})

    def send(self, method, path, body=None):
        answer = self.http.request(method, self.base + path, data=json.dumps(body or {}) if method == "POST" else None, timeout=90)
        value = answer.json()["value"]
        if answer.status_code >= 400:
            raise BrowserError(f"{value['error']}: {value['message']}")
        return value

    def open(self, url):
        self.send("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """Runs the body of an async function, and returns what it returns."""
        code = (
            "const done = arguments[arguments.length - 1];"
            f"(async (...given) => {{ {script} }})(...Array.from(arguments).slice(0, -1)).then(value => done({{value}}), error => done({{error: String(error)}}));"
        )
        answer = self.send("POST", "/execute/async", {"script": code, "args": list(arguments)})
        if "error" in answer:
            raise BrowserError(answer["error"])
        return answer.get("value")

    def at(self, css, method, action, body=None):
        """Sends a request about an element, and repeats it when the page changed meanwhile."""
        for _ in range(100):
            element = self.send("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]
            try:
                return self.send(method, f"/element/{element}/{action}", body)
            except BrowserError as error:
                if not any(words in str(error) for words in PASSING):
                    raise
            time.sleep(0.05)
        raise BrowserError(f"{css} goes again and again")

    def click(self, css):
        self.at(css, "POST", "click")

    def type(self, css, text):
        self.at(css, "POST", "value", {"text": text})

    def text(self, css):
        return self.at(css, "GET", "text")

    def tell(self):
        """Prints what each window shows, for a test that fails."""
        with contextlib.suppress(BrowserError, requests.RequestException):
            for window in self.windows:
                self.window = window
                print(f"  a window shows {self.url}: {self.text('body')[:400]!r}", flush=True)

    @property
    def windows(self):
        return self.send("GET", "/window/handles")

    @property
    def window(self):
        return self.send("GET", "/window")

    @window.setter
    def window(self, handle):
        self.send("POST", "/window", {"handle": handle})

    @property
    def url(self):
        return self.send("GET", "/url")

    @contextlib.contextmanager
    def frame(self, number):
        """Within it, elements are those of the page's frame of that number, counted from 0."""
        self.send("POST", "/frame", {"id": number})
        try:
            yield self
        finally:
            self.send("POST", "/frame", {"id": None})

    def resize(self, width, height):
        self.send("POST", "/window/rect", {"width": width, "height": height})

    def screenshot(self, width, height, scale=1.0):
        """The page's upper left part as PNG."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        command = {"cmd": "Page.captureScreenshot", "params": {"format": "png", "clip": clip, "captureBeyondViewport": True}}
        return base64.b64decode(self.send("POST", "/goog/cdp/execute", command)["data"])


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise BrowserError(f"in {seconds} s never: {what}")
        time.sleep(0.05)


@contextlib.contextmanager
def browser(name=None, address=None):
    """Chromium. It finds the host and port `name` at `address`, and nothing else but 127.0.0.1."""
    hosts = f"MAP {name} {address}, " if name else ""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    profile = tempfile.mkdtemp(prefix="aq-chromium-")
    driver = subprocess.Popen(["chromedriver", f"--port={port}", "--log-level=SEVERE"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    driver_address = f"http://127.0.0.1:{port}"
    try:

        def answers():
            with contextlib.suppress(requests.ConnectionError):
                return requests.get(f"{driver_address}/status", timeout=5, proxies={"http": None}).json()["value"]["ready"]

        until(answers, "chromedriver is ready")
        opened = Browser(driver_address, profile, hosts)
        try:
            yield opened
        except BaseException:
            opened.tell()
            raise
        finally:
            opened.send("DELETE", "")
    finally:
        driver.terminate()
        driver.wait(20)
        shutil.rmtree(profile, ignore_errors=True)
