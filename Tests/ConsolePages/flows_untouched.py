"""Edits of records with values that no control of a browser holds: fields that nobody touched stay as they are."""

from population import CONTAINER
from visitor import equal

ZONE = "_defaultZone"
# The first day of Apple's calendar, a year of five digits, and a time that JavaScript has no date for.
VALUES = {
    "title": {"type": "STRING", "value": "before"},
    "note": {"type": "STRING", "value": "a\r\nb"},
    "past": {"type": "TIMESTAMP", "value": -62_135_769_600_000},
    "far": {"type": "TIMESTAMP", "value": 400_000_000_000_000},
    "beyond": {"type": "TIMESTAMP", "value": 9_000_000_000_000_000},
    "count": {"type": "INT64", "value": (1 << 53) + 1},
    "counts": {"type": "INT64_LIST", "value": [(1 << 53) + 1, 1]},
    "few": {"type": "INT64_LIST", "value": [1, 2]},
    "place": {"type": "LOCATION", "value": {"latitude": 1.5, "longitude": -2.25}},
}


def play(flows):
    page, grace = flows.page, flows.grace
    path = f"/database/1/{CONTAINER}/development/private/records"

    def fields():
        body = {"zoneID": {"zoneName": ZONE}, "records": [{"recordName": "odd"}]}
        answer = flows.installation.call("POST", f"{path}/lookup", body, grace.token)
        return {name: field["value"] for name, field in answer["records"][0]["fields"].items()}

    with flows.step("an edit leaves alone what nobody touched, whatever a control of the browser makes of it"):
        record = {"recordType": "Odd", "recordName": "odd", "fields": VALUES}
        body = {"zoneID": {"zoneName": ZONE}, "operations": [{"operationType": "create", "record": record}]}
        flows.installation.call("POST", f"{path}/modify", body, grace.token)
        before = fields()
        page.open(f"#/data/{CONTAINER}/development/{grace.record_name}/{ZONE}/odd")
        page.click("Edit")
        page.sees("Nothing differs yet.")
        page.fill("title", "after")
        page.fill("few", "[1,3]")
        page.sees("title: before", "title: after", "few: [1,3]", "past: this value", "beyond: this value")
        equal(page.run("return document.querySelectorAll('dialog .diff [data-sign]').length"), 4)
        page.click("Save", "dialog button")
        page.has(".record-fields", "after")
        equal(fields(), {**before, "title": "after", "few": [1, 3]})
    with flows.step("a whole number that a browser rounds is refused, also in a list"):
        page.click("Edit")
        page.fill("few", f"[1,{(1 << 53) + 1}]")
        page.click("Save", "dialog button")
        page.sees("few: ", "is not a whole number that a browser holds exactly")
        page.click("Cancel")
