"""Sync: devices, what is held back, conflicts, the way of an object, events and pings."""

from population import CONTAINER, MARKUP

ZONE = "com.apple.coredata.cloudkit.zone"


def play(flows):
    page, ada = flows.page, flows.ada
    with flows.step("the devices are listed, a device's name is only a text, and each one says where it stands"):
        page.click("Sync", "nav a")
        page.sees("Ada’s telephone", "Grace’s telephone", MARKUP)
        page.click("Ada’s telephone")
        page.sees("State", "Held back", "Saved transactions", "export", "insert Photo", "Exported", "Imported")
    with flows.step("a held-back change shows its error and is tried again"):
        page.open("#/sync/quarantine")
        # Before and after the server has tried again by itself.
        page.sees("missing", "Rating", "there is no such object for Photo.ratings", "NOT_FOUND", "Next try")
        page.click("Try all again")
        page.sees("1 object will be tried again.")
    with flows.step("the way of an object is a line of time"):
        page.open(f"#/sync/explain?object={ada.photos[0]}&user={ada.record_name}")
        page.sees(
            "Saved on Ada’s telephone",
            "Exported from Ada’s telephone",
            "Imported by Ada’s tablet",
            "1 conflict of it to decide",
        )
        flows.take_picture()
    with flows.step("a conflict is settled by one click, between client, server and ancestor"):
        page.open("#/sync/conflicts")
        page.sees(
            "1 conflict in",
            "The device says",
            "The server has",
            "Before",
            "Dunes before breakfast",
            "Morning on the dunes",
            "on Ada’s tablet.",
            MARKUP,
        )
        page.click("Take client")
        page.sees("Settled.", "resolved")
        page.open(f"#/data/{CONTAINER}/development/{ada.record_name}/{ZONE}/{ada.photos[0]}")
        page.sees("History", MARKUP)
    events(flows)


def events(flows):
    page, grace = flows.page, flows.grace
    with flows.step("events appear as they happen"):
        page.open("#/sync/events")
        page.sees("Live events", "setup")
        before = page.run("return document.querySelectorAll('.feed li').length")
        change = {
            "changeType": "update",
            "entity": "Photo",
            "objectID": grace.photos[1],
            "attributes": {"caption": "Seen at once"},
        }
        grace.save(grace.stores[0], [change])
        page.run(
            "while (document.querySelectorAll('.feed li').length <= given[0]) await new Promise(requestAnimationFrame)",
            before,
        )
    with flows.step("a ping is shown as it is sent, with the devices that heard it"):
        page.open(f"#/sync/pings?user={grace.record_name}")
        page.sees("Listening.")
        before = page.run("return document.querySelectorAll('.feed li').length")
        grace.save(grace.stores[0], [change | {"attributes": {"caption": "Heard at once"}}])
        page.run(
            "while (document.querySelectorAll('.feed li').length <= given[0]) await new Promise(requestAnimationFrame)",
            before,
        )
        page.has(".feed a", ZONE)
        device = grace.stores[0]
        page.sees("the zone changed", f"saved by {device[:15]}…{device[-4:]}", "no device of the user was connected")
        page.click("Stop", "form button")
        page.sees("Not listening.")
