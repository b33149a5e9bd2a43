"""Schema: types, promotion, and models that are right or wrong."""

import pathlib
import tempfile

from population import CAPTION, MODEL, insert, name

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
            page.fill("Configuration", "Other")
            page.sees("Choose the model again")
            page.sees_no("Push to development")
            page.fill("Configuration", "")
            page.run("document.querySelector('input[type=file]:not([webkitdirectory])').value = ''")
            page.upload("input[type=file]:not([webkitdirectory])", contents)
            page.sees("CD_Photo.CD_place", "Push to development")
            page.click("Push to development")
            page.sees("The model is pushed.")
    with flows.step("a model that is dropped on the page is checked"):
        page.open("#/schema")
        page.open("#/schema/models")
        page.sees("Check and push a model")
        page.run(
            """
            const transfer = new DataTransfer();
            transfer.items.add(new File([given[0]], 'contents'));
            const drop = new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true });
            document.querySelector('.well').dispatchEvent(drop)""",
            MODEL.read_text().replace(CAPTION.decode(), BROKEN.decode()),
        )
        page.sees("1 problem. Nothing was changed.", "Photo.title", "Make the attribute optional")
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
    with flows.step("a promotion that would break records is refused, with the place of each problem"):
        page.open("#/schema/text")
        page.sees("The schema as a text", "CD_Rating")
        page.run(
            "const box = document.querySelector('textarea');"
            "box.value = box.value.replace(/(CD_stars +)INT64/, '$1STRING')"
        )
        page.run("document.querySelector('textarea').dispatchEvent(new Event('input', { bubbles: true }))")
        page.click("Also change the types of fields that records have")
        page.click("See what will change")
        page.sees("Save the schema")
        # Another choice or another text needs another look.
        page.click("Also change the types of fields that records have")
        page.sees_no("Save the schema")
        page.click("Also change the types of fields that records have")
        page.click("See what will change")
        page.sees("Save the schema")
        page.run("document.querySelector('textarea').dispatchEvent(new Event('input', { bubbles: true }))")
        page.sees_no("Save the schema")
        page.click("See what will change")
        page.click("Save the schema")
        page.sees("The schema is saved.")
        page.open("#/schema/diff")
        page.sees("can't change from INT64 to STRING")
        page.click("See what promotion does")
        page.sees("1 problem. Nothing was changed.", "CD_Rating.CD_stars")
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
    find_duplicates(flows)


def find_duplicates(flows):
    page, grace = flows.page, flows.grace
    with flows.step("objects that break a rule of uniqueness are listed, each with its address"):
        page.click("Change the rules")
        page.fill(
            "Rules as JSON", '{"unique":[{"entity":"Tag","attributes":["name"],"scope":"zone","policy":"report"}]}'
        )
        page.click("Save", "dialog button")
        page.sees("The rules are saved.", "report")
        twins = [name(), name()]
        grace.save(grace.stores[0], [insert("Tag", twin, {"name": "harbour"}) for twin in twins])
        page.open("#/schema")
        page.open("#/schema/rules")
        page.sees("CD_Tag", *twins)
        page.click(twins[0], "a")
        page.sees("CD_Tag", "harbour", "Change tag")
