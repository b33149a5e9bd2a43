"""Schema: types, promotion, and models that are right or wrong."""

import pathlib
import tempfile

from population import CAPTION, MODEL

BROKEN = CAPTION.replace(b'optional="YES" ', b"").replace(b"caption", b"title")


def play(flows):
    page = flows.page
    with flows.step("the record types show fields, indexes and grants"):
        page.click("Schema", "nav a")
        page.sees("CD_Photo", "CD_caption", "queryable", "Grants: WRITE TO _creator")
        page.fill("Filter", "Rating")
        page.sees("CD_Rating")
        page.sees_no("CD_Tag")
    with flows.step("a model with problems is refused with the place of each one"):
        page.open("#/schema/models")
        page.sees("Check and push a model")
        with tempfile.TemporaryDirectory(prefix="aq-model-") as folder:
            contents = pathlib.Path(folder) / "contents"
            contents.write_bytes(MODEL.read_bytes().replace(CAPTION, BROKEN))
            page.upload("input[type=file]:not([webkitdirectory])", contents)
            page.sees("1 problem. Nothing was changed.", "Photo.title")
            added = CAPTION + CAPTION.replace(b"caption", b"place")
            contents.write_bytes(MODEL.read_bytes().replace(CAPTION, added))
            page.run("document.querySelector('input[type=file]:not([webkitdirectory])').value = ''")
            page.upload("input[type=file]:not([webkitdirectory])", contents)
            page.sees("CD_Photo.CD_place", "Push to development")
            page.click("Push to development")
            page.sees("The model is pushed.")
    promote(flows)


def promote(flows):
    page = flows.page
    with flows.step("development is compared with production, and promoted after a look"):
        page.open("#/schema/diff")
        page.sees("CD_Photo.CD_place")
        page.click("See what promotion does")
        page.sees("additions.", "Promote to production")
        page.click("Promote to production")
        page.sees("Production has development's schema now.", "No difference")
    with flows.step("a rule of uniqueness is written, and one that does not fit is refused in place"):
        page.open("#/schema/rules")
        page.sees("No rules")
        page.click("Change the rules")
        page.fill(
            "Rules as JSON", '{"unique":[{"entity":"Nobody","attributes":["name"],"scope":"zone","policy":"merge"}]}'
        )
        page.click("Save", "dialog button")
        page.sees("Nobody", "Nothing was changed")
        page.click("Cancel")
        page.sees("No rules", "No duplicates")
