"""The console before a made-up installation: a large one, a lost connection, markup in every place, 390 to 1920 pixels.

usage: made_up.py PICTURE [FOLDER]   leaves a picture of Home, and in FOLDER pictures of all pages in all sizes
"""

import gzip
import pathlib
import re
import sys
import time
import urllib.parse

import large_installation
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


def check_sources():
    with STEPS.step("no page makes markup of a text, and all pages are small"):
        for path in FOLDER.rglob("*.js"):
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


def check_pages(page):
    with STEPS.step("each page shows its answer soon, even with a million records, and runs no stored markup"):
        slowest = {}
        for name in PAGES:
            route, word = route_of(name)
            began = time.monotonic()
            page.open(route)
            if name != "store":
                page.sees(word)
            slowest[name] = time.monotonic() - began
            expect(page.is_whole(), f"{name}: markup ran, or the policy refused something")
        name = max(slowest, key=slowest.get)
        print(f"  slowest: {name} in {slowest[name] * 1000:.0f} ms, the driver's questions included")


def measure(page):
    with STEPS.step("the pages measure what they need"):
        page.open("#/home")
        page.sees("All is well")
        # The past hour has come when a plot says that it begins then.
        page.has(".times", "1 h ago")
        pathlib.Path(sys.argv[1]).write_bytes(page.chromium.screenshot(1280, 900, scale=0.85))
        page.command("HeapProfiler.collectGarbage")
        heap = page.run("return performance.memory.usedJSHeapSize")
        shown = page.run("""
            const began = performance.now();
            window.location.hash = '#/people';
            while (!document.body.innerText.includes('person-00001')) await new Promise(requestAnimationFrame);
            return performance.now() - began""")
        print(
            f"  Home keeps {heap / 1e6:.1f} MB of objects; ten thousand users show their first page in {shown:.0f} ms"
        )


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
        measure(page)
        check_keyboard(page)
        check_lost_connection(page, stand_in)
        for size, scheme in (
            (390, "dark"),
            (1280, "light"),
            (1920, "dark"),
            (390, "light"),
            (1280, "dark"),
            (1920, "light"),
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
