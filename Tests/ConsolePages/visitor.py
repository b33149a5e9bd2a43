"""A person at the console: opens pages, and clicks and types by the words that they see."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Clients"))

from steps import Steps, equal, expect  # noqa: E402, F401
from webdriver import ELEMENT, BrowserError, browser, until  # noqa: E402

SIZES = {360: 780, 390: 844, 1280: 900, 1920: 1080, 2560: 1440}


class Visitor:
    def __init__(self, chromium, address):
        self.chromium = chromium
        self.address = address
        self.command("Page.enable")
        self.command("Log.enable")
        self.resize(1280)

    def command(self, name, **parameters):
        return self.chromium.send("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def resize(self, width):
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=SIZES[width],
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def set_scheme(self, scheme):
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, route=""):
        """Opens an address of the console, such as `#/data`; a page that is there already stays."""
        if self.chromium.url.startswith(self.address):
            self.chromium.run("window.location.hash = given[0]", route)
        else:
            self.chromium.open(self.address + route)

    def run(self, script, *arguments):
        return self.chromium.run(script, *arguments)

    def text(self):
        """What the page shows, fields included."""
        return self.run(
            "const fields = [...document.querySelectorAll('input, textarea, select')].map(each => each.value);"
            "return document.body.innerText + '\\n' + fields.join('\\n')"
        )

    def sees(self, *words, seconds=60):
        """Waits until the page shows all of these words."""
        seen = ""

        def shown():
            nonlocal seen
            seen = self.text()
            return all(word in seen for word in words)

        try:
            until(shown, words, seconds)
        except BrowserError:
            missing = [word for word in words if word not in seen]
            raise BrowserError(f"the page never shows {missing}, but: {' '.join(seen.split())[-900:]}") from None

    def sees_no(self, *words):
        until(lambda: not any(word in self.text() for word in words), f"the page is rid of {words}")

    def has(self, css, words=""):
        """Waits until an element of this selector has these words."""
        script = "return [...document.querySelectorAll(given[0])].some(each => each.textContent.includes(given[1]))"
        until(lambda: self.run(script, css, words), f"{css} has {words!r}")

    def find(self, kinds, words):
        """The element of these kinds with this text or name: of the dialog if one is open, else of the page."""
        script = """
            const [kinds, words] = given;
            const root = [...document.querySelectorAll('dialog[open]')].pop() ?? document;
            const seen = each => each.checkVisibility({ visibilityProperty: true }) && !each.disabled;
            const found = [...root.querySelectorAll(kinds)].filter(seen);
            const named = each => (each.getAttribute('aria-label') ?? each.innerText ?? '').trim();
            return found.find(each => named(each) === words || each.innerText?.trim() === words)
              ?? found.find(each => named(each).includes(words)) ?? null;
        """
        return until(lambda: self.run(script, kinds, words), f"there is a {kinds} with {words!r}")[ELEMENT]

    def click(self, words, kinds="button, a, label, summary, option, [role=option]"):
        for _ in range(50):
            element = self.find(kinds, words)
            try:
                self.command("Runtime.enable")
                return self.chromium.send("POST", f"/element/{element}/click")
            except BrowserError as error:
                if not any(
                    reason in str(error) for reason in ("stale element", "click intercepted", "not interactable")
                ):
                    raise
        raise BrowserError(f"{words} can't be clicked")

    def control(self, label):
        script = """
            const root = [...document.querySelectorAll('dialog[open]')].pop() ?? document;
            const labels = [...root.querySelectorAll('label')].filter(each => each.innerText.trim() === given[0]);
            const named = [...root.querySelectorAll('input, select, textarea')]
              .filter(each => each.getAttribute('aria-label') === given[0]);
            return labels.map(each => each.control).find(Boolean) ?? named[0] ?? null;
        """
        return until(lambda: self.run(script, label), f"there is a field {label!r}")[ELEMENT]

    def fill(self, label, text):
        element = self.control(label)
        self.chromium.send("POST", f"/element/{element}/clear")
        self.chromium.send("POST", f"/element/{element}/value", {"text": text})

    def choose(self, label, option):
        script = (
            "const [box, words] = given; const is = each => each.text === words || each.value === words;"
            "box.value = [...box.options].find(is).value;"
        )
        self.run(
            script + "box.dispatchEvent(new Event('change', { bubbles: true }))", {ELEMENT: self.control(label)}, option
        )

    def press(self, keys, *modifiers):
        actions = [{"type": "keyDown", "value": key} for key in (*modifiers, keys)]
        actions += [{"type": "keyUp", "value": key} for key in (keys, *modifiers)]
        self.chromium.send("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def type(self, text):
        for letter in text:
            self.press(letter)

    def upload(self, css, path):
        element = self.chromium.send("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]
        self.chromium.send("POST", f"/element/{element}/value", {"text": str(path)})

    def sign_in(self, token):
        self.chromium.open(self.address)
        self.fill("Operator token", token)
        self.click("Sign in")
        self.sees("Jump to")

    def sign_in_by_name(self, name, password):
        self.chromium.open(self.address)
        self.click("Use a name and a password")
        self.fill("Name", name)
        self.fill("Password", password)
        self.click("Sign in")

    def sign_out(self):
        self.click("Sign out")
        self.sees("You have signed out")

    def complaints(self):
        """What the browser wrote to its console, except for answers that tests provoke."""
        lines = self.chromium.send("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if "Failed to load resource" not in line["message"]]

    def is_whole(self):
        """No stored text ran, and the policy refused nothing."""
        return (
            self.run("return window.broken === undefined && !document.querySelector('[onerror]')")
            and not self.complaints()
        )


@contextlib.contextmanager
def visitor(address):
    with browser() as chromium:
        yield Visitor(chromium, address)
