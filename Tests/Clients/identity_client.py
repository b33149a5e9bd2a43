"""Signs in through an independent provider of OpenID Connect in headless Chromium: there, back, again, and refused."""

import contextlib
import logging
from urllib.parse import urlencode

import requests
from oidc_provider_mock import User, run_server_in_thread

from pages import serve
from steps import Steps, Surroundings, equal, expect
from webdriver import browser, until

WORLD = Surroundings.read()
STEPS = Steps("identity")
PEOPLE = [
    User(sub="ada", claims={"email": "ada@example.org", "email_verified": True, "given_name": "Ada"}),
    User(sub="eve", claims={"email": "ada@example.org", "email_verified": False, "given_name": "Eve"}),
    User(sub="mallory", claims={"email": "mallory@example.org", "email_verified": True, "given_name": "Mallory"}),
    User(sub="bob", claims={"email": "bob@example.org", "email_verified": True, "given_name": "Bob"}),
]


VIRTUAL_AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
}
# The name of the gateway for the browser, which makes passkeys for names alone.
PUBLIC = "localhost:18931"


def sign_in_address(path="/signin"):
    """The address of the sign-in page, or of the account page."""
    answer = requests.get(
        WORLD.database("public/users/caller"),
        params={"ckAPIToken": WORLD.api_token},
        headers={"Origin": "https://app.example.org"},
        timeout=30,
    )
    return answer.json()["redirectURL"].replace("/signin", path)


def operator(method, path, body=None):
    answer = requests.request(method, WORLD.gateway + path, json=body, headers={"Authorization": f"Bearer {WORLD.operator}"}, timeout=30)
    equal(answer.status_code, 200, f"{path} {answer.text}")
    return answer.json()


def begin(page, address):
    """Opens the app anew, and its sign-in window, which it leaves in front. Returns the app's window."""
    page.open(address)
    told = page.run("return app.call('public/users/caller')")
    equal(told["status"], 421)
    page.run("app.redirectURL = given[0]", told["json"]["redirectURL"])
    own = page.window
    page.click("#signin")
    page.window = until(lambda: next((handle for handle in page.windows if handle != own), None), "the sign-in window opens")
    return own


def sign_in(page, address, person):
    """Signs in as a person whom the provider knows. Returns the answer of users/caller."""
    own = begin(page, address)
    page.click("a.provider")
    page.click(f"button[name=sub][value={person}]")
    page.window = own
    until(lambda: page.run("return app.message"), "the page gets its message")
    until(lambda: page.windows == [own], "the window closes itself")
    answer = page.run("return app.call('public/users/caller')")
    equal(answer["status"], 200, f"{answer}")
    return answer["json"]


def enter_account(page, address, person):
    """Signs in to the account page, in a window of its own, and leaves it in front."""
    begin(page, address)
    page.click("#account")
    page.click("a.provider")
    page.click(f"button[name=sub][value={person}]")
    until(lambda: "Ways to sign in" in page.text("main"), "the account page opens")


def leave(page):
    """Closes the window in front, and goes back to the app's."""
    page.run("window.close()")
    page.window = until(lambda: page.windows[0] if len(page.windows) == 1 else None, "the window closes")


UNFIT = """
const small = [...document.querySelectorAll("main a, main button, main input:not([type=hidden]):not([type=checkbox])")]
  .filter((each) => each.getClientRects().length && each.getBoundingClientRect().height < 24).map((each) => each.outerHTML);
return document.documentElement.scrollWidth > window.innerWidth ? [`${document.documentElement.scrollWidth} pixels`, ...small] : small;
"""


@contextlib.contextmanager
def telephone(page, width):
    """The window has the width and the density of a telephone's."""
    metrics = {"width": width, "height": 740, "deviceScaleFactor": 3, "mobile": True}
    page.send("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})
    try:
        yield
    finally:
        page.send("POST", "/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})


def main():
    # The provider's lines for each request would hide a step that fails.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    settings = {"gateway": WORLD.gateway, "container": WORLD.container, "apiToken": WORLD.api_token, "clientId": "page-1"}
    address = f"{serve()}/?{urlencode(settings)}"
    with run_server_in_thread(user_claims=PEOPLE) as provider, browser(PUBLIC, WORLD.gateway.removeprefix("http://")) as page:
        issuer = f"http://127.0.0.1:{provider.server_port}"
        identity = {"name": "acme", "displayName": "Acme", "issuer": issuer, "clientID": "aquifer", "clientSecret": "a secret", "signUp": "open"}

        with STEPS.step("without a provider the page asks for name and password alone"):
            own = begin(page, address)
            expect("Continue with" not in page.text("main"), "the page offers a provider")
            page.run("window.close()")
            page.window = own

        with STEPS.step("a person becomes a user with the first sign-in, and is the same user with the next one"):
            operator("POST", "/admin/1/identities", identity)
            ada = sign_in(page, address, "ada")
            equal(ada["nameComponents"], {"givenName": "Ada"})
            equal(ada["lookupInfo"], {"emailAddress": "ada@example.org"})
            equal(sign_in(page, address, "ada")["userRecordName"], ada["userRecordName"])

        with STEPS.step("an address that the provider has not verified makes nobody somebody else"):
            eve = sign_in(page, address, "eve")
            expect(eve["userRecordName"] != ada["userRecordName"], "Eve is Ada")
            equal(eve["lookupInfo"], {})

        with STEPS.step("a person sees their sessions and ends the others, and no form of a stranger's does that"):
            token = page.run("return app.token")
            enter_account(page, address, "eve")
            expect("This page" in page.text("main") and "Chrome on Linux" in page.text("main"), page.text("main"))
            foreign = requests.post(
                f"{WORLD.gateway}/account", data={"act": "end-others"}, headers={"Origin": "https://evil.example"}, timeout=30
            )
            equal(foreign.status_code, 400)
            page.click("form:has([value=end-others]) button")
            until(lambda: "Chrome on Linux" not in page.text("main"), "the other sessions end")
            leave(page)
            page.run("app.token = given[0]", token)
            until(lambda: page.run("return app.call('public/users/caller')")["status"] == 421, "the app is signed out")

        with STEPS.step("the pages fit a narrow telephone, and their controls a finger"):
            sign_in(page, address, "eve")
            enter_account(page, address, "eve")
            for width in (320, 390):
                with telephone(page, width):
                    for path in (f"http://{PUBLIC}/account", f"http://{PUBLIC}/account/device", sign_in_address()):
                        page.open(path)
                        equal(page.run("return window.innerWidth"), width)
                        equal(page.run(UNFIT), [], path)
            leave(page)

        with STEPS.step("an operator's icon is drawn beside the provider's name"):
            drawing = '<svg xmlns="http://www.w3.org/2000/svg" width="28" height="28"><circle cx="14" cy="14" r="14"/></svg>'
            answer = requests.put(
                f"{WORLD.gateway}/admin/1/identities/acme/icon",
                data=drawing,
                headers={"Authorization": f"Bearer {WORLD.operator}"},
                timeout=30,
            )
            equal(answer.json(), {"icon": "svg"})

            def is_drawn():
                page.open(sign_in_address())
                return page.run("return document.querySelector('.icon')?.naturalWidth") == 28

            until(is_drawn, "the icon is drawn")

        with STEPS.step("a second identity leads to the same user after its owner has linked it, and no more once removed"):
            eve = sign_in(page, address, "eve")
            enter_account(page, address, "eve")
            page.click("a[href='/account/link/acme']")
            page.click("button[name=sub][value=mallory]")
            until(lambda: page.text("main").count("Remove") == 2, "the identity is added")
            leave(page)
            equal(sign_in(page, address, "mallory")["userRecordName"], eve["userRecordName"])
            enter_account(page, address, "eve")
            page.click("a[href='/account/link/acme']")
            page.click("button[name=sub][value=ada]")
            expect("Another account signs in there already" in page.text("#reason"), page.text("main"))
            page.click("li:last-child form:has([value=remove]) button")
            until(lambda: page.text("main").count("Remove") == 1, "the identity is removed")
            page.click("form:has([value=remove]) button")
            expect("your only way to sign in" in page.text("#reason"), page.text("main"))
            leave(page)
            expect(sign_in(page, address, "mallory")["userRecordName"] != eve["userRecordName"], "Mallory is Eve")

        # Chromium's virtual keys belong to one window.
        with STEPS.step("a person adds a passkey and signs in with it alone, until it is removed"):
            eve = sign_in(page, address, "eve")
            page.send("POST", "/webauthn/authenticator", VIRTUAL_AUTHENTICATOR)
            page.open(sign_in_address("/account"))
            page.click("a.provider")
            page.click("button[name=sub][value=eve]")
            page.click("#passkey button")
            until(lambda: "Passkey of Chrome on Linux" in page.text("main"), "the passkey is added")
            page.open(sign_in_address())
            page.click("#passkey button")
            until(lambda: page.run("return document.body.dataset.token"), "the page has a token")
            token = page.run("return document.body.dataset.token")
            caller = requests.get(
                WORLD.database("public/users/caller"), params={"ckAPIToken": WORLD.api_token, "ckWebAuthToken": token}, timeout=30
            )
            equal(caller.json()["userRecordName"], eve["userRecordName"])
            page.open(f"http://{PUBLIC}/account")
            page.click("li:last-child form:has([value=remove]) button")
            until(lambda: "Passkey of" not in page.text("main"), "the passkey is removed")
            page.open(sign_in_address())
            page.click("#passkey button")
            until(lambda: "does not sign you in" in page.text("main"), "the page refuses the passkey")

        # This provider leaves the state out when a person declines, against RFC 6749, 4.1.2.1.
        with STEPS.step("a person who declines is back at the server, which says how to go on"):
            own = begin(page, address)
            page.click("a.provider")
            page.click("button[value=deny]")
            expect("Go back to the app and sign in from there" in page.text("#reason"), page.text("main"))
            expect(page.url.startswith(f"http://{PUBLIC}/"), page.url)
            page.run("window.close()")
            page.window = own

        with STEPS.step("only the invited sign up where the operator wants it so"):
            operator("DELETE", "/admin/1/identities/acme")
            operator("POST", "/admin/1/identities", identity | {"signUp": "invited"})
            own = begin(page, address)
            page.click("a.provider")
            page.click("button[name=sub][value=bob]")
            expect("nobody has invited your e-mail address" in page.text("#reason"), page.text("main"))
            page.run("window.close()")
            page.window = own
            operator("POST", "/admin/1/invitations", {"email": "bob@example.org"})
            equal(sign_in(page, address, "bob")["nameComponents"], {"givenName": "Bob"})
            equal(sign_in(page, address, "ada")["userRecordName"], ada["userRecordName"])
    STEPS.done()


main()
