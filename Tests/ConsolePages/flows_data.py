"""Data: from a container to a record, queries, edits, and the tools of a zone."""

from population import CAPTIONS, CONTAINER

from visitor import expect

ZONE = "com.apple.coredata.cloudkit.zone"


def play(flows):
    look(flows)
    follow_a_link(flows)
    query(flows)
    edit(flows)
    share_with_all(flows)
    restore(flows)


def look(flows):
    page, ada = flows.page, flows.ada
    with flows.step("an operator goes from the container to a record, and follows a reference to its picture"):
        page.click("Data", "nav a")
        page.sees("Private databases", "Ada Example")
        page.click("ada")
        page.sees("Private database", ada.record_name)
        page.click(ZONE)
        page.sees("Find records", "CD_Photo", "CD_Rating")
        page.choose("Record type", "CD_Rating")
        page.has("thead", "stars")
        page.has("tbody a")
        ratings = page.run("return [...document.querySelectorAll('tbody a')].map(each => each.title)")
        page.open(f"#/data/{CONTAINER}/development/{ada.record_name}/{ZONE}/{ratings[0]}")
        page.has(".record-fields a")
        page.run("document.querySelector('.record-fields a').click()")
        page.sees("CD_Photo", "addedAt", "picture", "Change tag")
        page.run("while (!document.querySelector('img')?.naturalWidth) await new Promise(requestAnimationFrame)")
    with flows.step("a record says which device set which field, and is shown as a record and as an object"):
        page.open(f"#/data/{CONTAINER}/development/{ada.record_name}/{ZONE}/{ada.photos[0]}")
        page.sees(
            "As a record",
            "As an object",
            "update",
            "Dunes before breakfast",
            "CD_caption: Morning on the dunes",
            "on Ada’s telephone",
            '"objectID"',
            '"recordName"',
        )


def follow_a_link(flows):
    page, ada = flows.page, flows.ada
    with flows.step("an address that somebody sent leads to their container, whichever one was looked at before"):
        page.open("#/data")
        page.sees("Private databases")
        page.choose("Container", flows.other_container)
        page.sees(f"Databases of {flows.other_container}", "No data yet")
        page.open(f"#/sync?container={CONTAINER}&environment=development")
        page.sees("Ada’s telephone")
        page.choose("Container", flows.other_container)
        page.sees("No device here")
        page.open(f"#/data/{CONTAINER}/development/{ada.record_name}/{ZONE}")
        page.sees("Find records", CAPTIONS[2])
        page.click("Sync", "nav a")
        page.sees("Ada’s telephone")
        address = page.run("return window.location.hash")
        expect(f"container={CONTAINER}" in address, address)


def query(flows):
    page, ada = flows.page, flows.ada
    with flows.step("a query finds records by a condition, in an order"):
        page.open(f"#/data/{CONTAINER}/development/{ada.record_name}/{ZONE}")
        page.choose("Record type", "CD_Photo")
        page.sees(CAPTIONS[2])
        page.click("Add a condition")
        page.choose("Field", "CD_caption")
        page.choose("Comparison", "begins with")
        page.fill("Value", "The day")
        page.choose("Order by", "CD_caption")
        page.click("Search")
        page.sees(CAPTIONS[2])
        page.sees_no(CAPTIONS[3])
    with flows.step("a bad value is said, and the query is not sent"):
        page.choose("Field", "CD_addedAt")
        page.choose("Comparison", "less than")
        page.run("[...document.querySelectorAll('.condition input')].at(-1).value = ''")
        page.click("Search")
        page.sees("is not a date")


def edit(flows):
    page, ada = flows.page, flows.ada
    address = f"#/data/{CONTAINER}/development/{ada.record_name}/{ZONE}"
    with flows.step("an edit shows the difference, and is in the history with the operator as its device"):
        page.open(f"{address}/{ada.photos[2]}")
        page.click("Edit")
        page.sees("Nothing differs yet.")
        page.fill("CD_caption", "Found again")
        page.sees("CD_caption: The day we got lost", "CD_caption: Found again")
        page.click("Save", "dialog button")
        page.sees("The record is saved.", "Found again", "operator")
    with flows.step("a record is made and deleted"):
        page.open(address)
        page.click("New record")
        page.choose("Record type", "CD_Tag")
        page.fill("CD_name", "made in the console")
        page.fill("CD_entityName", "Tag")
        page.sees("CD_name: made in the console")
        page.click("Create", "dialog button")
        page.sees("CD_Tag", "made in the console", "History")
        page.click("Delete")
        page.sees("Every device of everybody")
        page.click("Delete the record")
        page.sees("The record is deleted.", "Find records")


def share_with_all(flows):
    page = flows.page
    with flows.step("a record is made in the public database"):
        page.open("#/data")
        page.click("Public database")
        page.click("_defaultZone")
        page.click("New record")
        page.choose("Record type", "CD_Tag")
        page.fill("CD_name", "for everybody")
        page.click("Create", "dialog button")
        page.sees("CD_Tag", "for everybody", "History", "insert")


def restore(flows):
    page, grace = flows.page, flows.grace
    with flows.step("a zone is exported"):
        page.open(f"#/data/{CONTAINER}/development/{grace.record_name}/{ZONE}")
        page.click("Zone tools")
        page.click("Export", "dialog button")
        page.sees("Save com.apple.coredata.cloudkit.zone.jsonl")
        page.click("Close")
    with flows.step("a zone is restored to a date, after a look at what will change"):
        before = page.run("return new Date(Date.now()).toISOString().slice(0, 23)")
        change = {
            "changeType": "update",
            "entity": "Photo",
            "objectID": grace.photos[3],
            "attributes": {"caption": "A mistake"},
        }
        page.run(
            "while (new Date().toISOString() <= given[0] + 'Z') await new Promise(requestAnimationFrame)",
            before,
        )
        grace.save(grace.stores[0], [change])
        page.click("Zone tools")
        page.click("Restore", "dialog button")
        set_date = (
            "const box = document.querySelector('dialog input[type=datetime-local]'); box.value = given[0];"
            "box.dispatchEvent(new Event('input', { bubbles: true }))"
        )
        page.run(set_date, before)
        page.click("Restore", "dialog footer button")
        page.sees("Look first at what will change")
        page.click("See what will change")
        page.sees("1 record will change.")
        page.run(set_date, "2026-01-01T00:00:00.000")
        page.sees_no("1 record will change.")
        page.click("Restore", "dialog footer button")
        page.sees("Look first at what will change")
        page.run(set_date, before)
        page.click("See what will change")
        page.sees("1 record will change.", "CD_caption: A mistake", f"CD_caption: {CAPTIONS[3]}")
        page.click("Restore", "dialog footer button")
        page.sees("1 record brought back")
        page.open(f"#/data/{CONTAINER}/development/{grace.record_name}/{ZONE}/{grace.photos[3]}")
        page.sees("Change tag", CAPTIONS[3])
        values = page.run("return document.querySelector('.record-fields').innerText")
        expect("A mistake" not in values, values)
