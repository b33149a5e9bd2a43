"""The console before a made-up installation: a large one, a lost connection, markup in every place, 360 to 2560 pixels.

usage: made_up.py PICTURE [FOLDER]   leaves a picture of Home, and in FOLDER pictures of all pages in all sizes
"""

import gzip
import pathlib
import re
import sys
import urllib.parse

import large_installation
import large_rows
from accessibility import focus_order, problems
from routes import routes
from stand_in import FOLDER, StandIn
from visitor import SIZES, Steps, equal, expect, visitor


STEPS = Steps("console")
OWNER = large_installation.user(0)
PAGES = routes(
    large_installation.CONTAINER,
    OWNER,
    large_installation.MARKUP,
    "00000000-0000-0000-0000-000000000050",
    "store-00000",
)
LIMIT = 250 * 1024
HEAP_LIMIT = 50_000_000
# The made-up installation answers no store's calls.
NO_STORE = "There is no operator call"


def check_sources():
    with STEPS.step("no page makes markup of a text, and all pages are small"):
        for path in (path for path in FOLDER.rglob("*.js") if not path.is_symlink()):
            found = re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser",
                path.read_text(),
            )
            expect(not found, f"{path.name} has {found and found.group()}")
        size = sum(len(gzip.compress(path.read_bytes())) for path in FOLDER.rglob("*") if path.is_file())
        expect(size < LIMIT, f"{size} bytes")
        print(f"  {size} bytes gzip'd")


def route_of(name):
    """The page's address, with the made-up zone's name, which is markup, escaped as the pages do."""
    route, word = PAGES[name]
    return route.replace(large_installation.MARKUP, urllib.parse.quote(large_installation.MARKUP, safe="")), word


# Fulfilled when the page shows the word, with the milliseconds since its address was set.
SHOWN = """
    const [route, word] = given;
    const began = performance.now();
    window.location.hash = route;
    const shown = () => document.querySelector('main')?.innerText.includes(word);
    while (!shown()) await new Promise(requestAnimationFrame);
    return performance.now() - began"""


def check_pages(page):
    with STEPS.step("each page shows its answer soon, even with a million records, and runs no stored markup"):
        taken, heaps = {}, {}
        for name in PAGES:
            route, word = route_of(name)
            page.open("#/operations/versions" if name != "versions" else "#/home")
            taken[name] = page.run(SHOWN, route, NO_STORE if name == "store" else word)
            expect(page.is_whole(), f"{name}: markup ran, or the policy refused something")
            page.command("HeapProfiler.collectGarbage")
            heaps[name] = page.run("return performance.memory.usedJSHeapSize")
        slowest, largest = max(taken, key=taken.get), max(heaps, key=heaps.get)
        usual = sorted(taken.values())[len(taken) // 2]
        print(f"  slowest: {slowest} in {taken[slowest]:.0f} ms, half of the pages within {usual:.0f} ms")
        print(f"  largest: {largest} with {heaps[largest] / 1e6:.1f} MB of objects")
        expect(heaps[largest] < HEAP_LIMIT, f"{largest} keeps {heaps[largest]} bytes")


def take_picture(page):
    with STEPS.step("the plots begin with the hour that the processes remember"):
        page.open("#/home")
        page.sees("All is well")
        page.has("figure", "of the last hour")
        pathlib.Path(sys.argv[1]).write_bytes(page.chromium.screenshot(1280, 900, scale=0.8))


def check_people(page, size, scheme, folder):
    for name in PAGES:
        if name == "store":
            continue
        route, word = route_of(name)
        page.open(route)
        page.sees(word)
        equal(problems(page), [], f"{name} at {size} in {scheme}")
        if folder:
            (folder / f"{name}-{size}-{scheme}.png").write_bytes(page.chromium.screenshot(size, SIZES[size]))


def check_lost_connection(page, stand_in):
    with STEPS.step("a lost connection is said, and the page goes on by itself"):
        page.open("#/home")
        page.sees("All is well")
        stand_in.is_up = False
        page.open("#/people")
        page.sees("The connection is lost", "does not answer")
        stand_in.is_up = True
        page.sees("person-00001")
        page.sees_no("The connection is lost")
        page.sees("live")


def check_bucket(page):
    with STEPS.step("a content to which the server only leads is not called expired"):
        told = page.run("""
            const [real, asked] = [window.fetch, []];
            const { valueView } = await import(new URL("pages/data/values.js", window.location.href.split("#")[0]));
            window.fetch = async (url, init) => {
                asked.push([url, init?.redirect]);
                return { ok: false, type: init?.redirect === "manual" ? "opaqueredirect" : "error" };
            };
            const view = valueView({ type: "ASSETID", value: { size: 5, downloadURL: "/assets/1/x?y" } });
            while (!view.innerText.includes("content")) await new Promise(requestAnimationFrame);
            window.fetch = real;
            return [asked, view.innerText.includes("The content is in a bucket")]""")
        equal(told, [[["/assets/1/x?y", "manual"]], True])


def check_names(page, stand_in):
    with STEPS.step("a name with slashes and dots is a part of an address, and leads to no other call"):
        name = "../" * 10 + "sample"
        stand_in.requests.clear()
        page.open(route_of("record")[0].rsplit("/", 1)[0] + "/" + urllib.parse.quote(name, safe=""))
        page.sees("No device of this user has the object")
        paths = [path for method, path in stand_in.requests if "/stores/" in path]
        expect(paths and all(path.endswith(f"/objects/{urllib.parse.quote(name, safe='')}") for path in paths), paths)
    with STEPS.step("a name that a browser takes for a step of an address is said, and nothing is asked"):
        asked, said = page.run("""
            const [real, asked] = [window.fetch, []];
            const { zoneCall } = await import(new URL("core/plane.js", window.location.href.split("#")[0]));
            window.fetch = async (url) => {
                asked.push(url);
                return new Response("{}");
            };
            const at = { container: "c", environment: "development", owner: "_u" };
            const said = await zoneCall("POST", at, "..", "end", { json: {} }).catch((error) => error.message);
            window.fetch = real;
            return [asked, said]""")
        equal(asked, [])
        expect("can't send the name" in str(said), said)


def check_direction(page):
    with STEPS.step("a name that turns the direction of text is shown with a mark in place of the turn"):
        shown = page.run("""
            const { h } = await import(new URL("core/dom.js", window.location.href.split("#")[0]));
            return h("b", null, "a\\u202egpj.exe", ["\\u2067b", "c\\u200dd"]).textContent""")
        equal(shown, "a\ufffdgpj.exe\ufffdbc\u200dd")


def check_copies(page):
    with STEPS.step("without a clipboard a secret is selected, and not called copied"):
        told = page.run("""
            const { copyable } = await import(new URL("parts/parts.js", window.location.href.split("#")[0]));
            Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true });
            const view = copyable("a secret", "the secret");
            document.body.append(view);
            view.querySelector("button").click();
            while (!view.querySelector("[role=status]").innerText) await new Promise(requestAnimationFrame);
            const said = view.querySelector("[role=status]").innerText;
            const selected = String(window.getSelection());
            view.remove();
            delete navigator.clipboard;
            return [said.startsWith("Selected"), selected]""")
        equal(told, [True, "a secret"])


def check_private_key(page, stand_in):
    with STEPS.step("a private key is not sent in place of the public one"):
        page.open("#/people/tokens")
        page.click("Add a key")
        page.fill("Public key", "-----BEGIN EC PRIVATE KEY----- x -----END EC PRIVATE KEY-----")
        page.click("Add", "dialog button")
        page.sees("This is the private half")
        page.click("Cancel")
        expect(("POST", "/console/api/keys") not in stand_in.requests, "the key was sent")


def check_sign_out(page, stand_in):
    with STEPS.step("a user is signed out everywhere by one call"):
        page.open(f"#/people/users/{OWNER}")
        page.click("Sign out everywhere")
        page.sees("also those in this console")
        page.click("Sign out", "dialog footer button")
        page.sees("The user is signed out.")
        expect(("POST", "/console/api/users/person-00001/sign-out") in stand_in.requests, stand_in.requests[-5:])


def check_conflicts(page):
    with STEPS.step("all conflicts of a zone are found, also those beyond a page of its journal"):
        page.open(f"#/sync/conflicts?state=lost&zone={urllib.parse.quote(large_rows.DISPUTED)}")
        page.sees(f"{large_rows.CONFLICTS} conflicts in ")
        page.has("li", f"lost-{large_rows.CONFLICTS}")


def check_keyboard(page):
    with STEPS.step("the keyboard reaches everything, and what has the focus shows it"):
        page.open("#/data")
        page.sees("Private databases")
        order = focus_order(page)
        equal(order[:2], ["Skip to the content", "Aquifer, home"])
        expect("Operations" in order and "Jump to a page, user, zone or record" in order, order)
    with STEPS.step("Ctrl-K jumps to a user by a part of the name"):
        page.press("k", CONTROL)
        page.type("04242")
        page.sees("person-04242")
        page.press(DOWN)
        page.press(UP)
        page.press(ENTER)
        page.sees("What they hold")


CONTROL, DOWN, UP, ENTER = "\ue009", "\ue015", "\ue013", "\ue007"


def check_refusals(page, stand_in):
    with STEPS.step("a wrong token is refused in words, and is in no address"):
        page.chromium.open(stand_in.address)
        page.fill("Operator token", "a guess")
        page.click("Sign in")
        page.sees("This is not the operator token")
        equal(problems(page), [], "the door")
        page.fill("Operator token", stand_in.token)
        page.click("Sign in")
        page.sees("All is well")
        expect(
            not any("a%20guess" in path or "a+guess" in path for _, path in stand_in.requests),
            "the token is in an address",
        )
    with STEPS.step("a session that ended leads to the door, and a new one goes on at the same page"):
        page.open("#/people")
        page.sees("person-00001")
        stand_in.sessions.clear()
        page.open("#/sync")
        page.sees("The session has ended")
        page.fill("Operator token", stand_in.token)
        page.click("Sign in")
        page.sees("Phone 6")


def main():
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    check_sources()
    stand_in = StandIn(large_installation.answer, large_installation.sample)
    with visitor(stand_in.address) as page:
        check_refusals(page, stand_in)
        check_pages(page)
        take_picture(page)
        check_keyboard(page)
        check_conflicts(page)
        check_names(page, stand_in)
        check_copies(page)
        check_direction(page)
        check_private_key(page, stand_in)
        check_sign_out(page, stand_in)
        check_bucket(page)
        check_lost_connection(page, stand_in)
        for size, scheme in (
            (390, "dark"),
            (1280, "light"),
            (1920, "dark"),
            (390, "light"),
            (1280, "dark"),
            (1920, "light"),
            (360, "light"),
            (2560, "dark"),
        ):
            if not folder and (size, scheme) not in ((390, "dark"), (1280, "light")):
                continue
            with STEPS.step(f"names, contrast and width hold at {size} pixels, {scheme}"):
                page.resize(size)
                page.set_scheme(scheme)
                check_people(page, size, scheme, folder)
        expect(page.is_whole(), page.complaints())
    stand_in.close()
    STEPS.done()


main()
