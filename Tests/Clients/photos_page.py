"""Plays the page of deploy/photos in headless Chromium, and writes a picture of it. usage: photos_page.py URL PICTURE"""

import sys

from steps import Steps, expect
from webdriver import browser, until

ADDRESS, PICTURE = sys.argv[1:3]
STEPS = Steps("photos")
ADA, TABLET, GRACE = range(3)
CAPTIONS = "return [...document.querySelectorAll('#grid b')].map(caption => caption.textContent)"


class Page:
    def __init__(self, chromium):
        self.chromium = chromium

    def captions(self, phone):
        with self.chromium.frame(phone):
            return self.chromium.run(CAPTIONS)

    def text(self, phone, name):
        with self.chromium.frame(phone):
            return self.chromium.run(f"return document.getElementById('{name}').textContent")

    def click(self, phone, *selectors):
        with self.chromium.frame(phone):
            for css in selectors:
                self.chromium.click(css)

    def caption(self, phone, number, text, stars=None, tag=None):
        """Opens a photo by its place in the grid, and edits it as a person does."""
        with self.chromium.frame(phone):
            self.chromium.click(f"#grid li:nth-child({number})")
            if stars:
                self.chromium.click(f"#stars button:nth-child({stars})")
            self.chromium.run("document.getElementById('caption').value = ''")
            self.chromium.type("#caption", text)
            if tag:
                self.chromium.type("#tag", tag)
            self.chromium.click("#sheet .primary")
            until(lambda: self.chromium.run("return document.getElementById('sheet').hidden"), "the sheet is closed")

    def until(self, condition, what):
        until(condition, what, 30)


def play(page):
    with STEPS.step("photos of one telephone are on the other"):
        for count in range(1, 5):
            page.click(ADA, "#add")
            page.until(lambda: len(page.captions(ADA)) == count, "the photo is taken")
        page.until(lambda: page.captions(TABLET) == page.captions(ADA), "the tablet has the photos")

    with STEPS.step("both telephones edit offline"):
        page.click(ADA, "#airplane")
        page.click(TABLET, "#airplane")
        page.until(lambda: "airplane" in page.text(TABLET, "idle"), "the tablet is offline")
        page.caption(ADA, 1, "Morning on the dunes", stars=5)
        page.caption(TABLET, 1, "The day we got lost", tag="family")
        page.caption(TABLET, 2, "Waiting for the ferry", stars=4)
        page.until(lambda: page.captions(ADA)[0] == "Morning on the dunes", "the phone shows its edit")
        expect(page.captions(TABLET)[0] == "The day we got lost", "the tablet shows its own")
        page.until(lambda: page.text(TABLET, "pending") != "nothing", "the tablet's edits wait")

    with STEPS.step("a killed telephone starts again with what it saved"):
        page.click(TABLET, "#kill")
        with page.chromium.frame(TABLET):
            alive = "return document.getElementById('dead').hidden"
            page.until(lambda: not page.chromium.run(alive), "the tablet is dead")
            page.until(lambda: page.chromium.run(alive), "the tablet is back")
        page.until(lambda: page.captions(TABLET)[1] == "Waiting for the ferry", "the edit is there")

    with STEPS.step("online again, both are equal"):
        page.click(ADA, "#airplane")
        page.click(TABLET, "#airplane")
        page.until(lambda: page.text(ADA, "pending") == page.text(TABLET, "pending") == "nothing", "nothing is pending")
        page.until(lambda: page.captions(ADA) == page.captions(TABLET), "the telephones are equal")

    with STEPS.step("an invitation reaches the third telephone, which accepts it"):
        page.click(ADA, "#grid li:nth-child(1)", "#share")
        page.until(lambda: shown(page, GRACE, "#invitation"), "the invitation is there")
        page.click(GRACE, "#accept")
        page.until(lambda: page.captions(GRACE) == page.captions(ADA)[:1], "Grace has the photo")
        page.click(ADA, "#sheet .primary")

    with STEPS.step("a pinned view stays as it is"):
        page.click(TABLET, "#pin")
        page.until(lambda: page.text(TABLET, "generation") != "newest", "the view is pinned")
        page.caption(GRACE, 1, "Ada’s dunes, by Grace", stars=5)
        page.until(lambda: page.captions(ADA)[0] == "Ada’s dunes, by Grace", "Ada has Grace's caption")
        page.until(lambda: page.text(GRACE, "pending") == "nothing", "Grace's edits are with the server")
        expect(page.captions(TABLET)[0] != "Ada’s dunes, by Grace", "the pinned view is as it was")
        page.click(ADA, "#airplane")
        page.caption(ADA, 3, "Above it all", tag="summit")
        page.until(lambda: page.text(ADA, "pending") == "2 saves", "the edits wait")


def shown(page, phone, css):
    with page.chromium.frame(phone):
        return page.chromium.run(f"return !document.querySelector('{css}').hidden")


with browser() as chromium:
    chromium.resize(1200, 1160)
    chromium.open(ADDRESS)
    page = Page(chromium)
    page.until(lambda: chromium.run("return document.querySelectorAll('iframe').length") == 3, "three telephones are there")
    page.until(lambda: all(page.text(phone, "device") for phone in range(3)), "the telephones answer")
    play(page)
    with open(PICTURE, "wb") as file:
        file.write(chromium.screenshot(1200, 1010, scale=0.8))
