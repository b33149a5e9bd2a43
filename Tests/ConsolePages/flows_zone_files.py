"""Zones as files: an export vouches for itself, and an import is whole, or says how far it came."""

import base64
import hashlib
import json
import pathlib
import tempfile

from population import CONTAINER
from visitor import equal, expect

ZONE = "_defaultZone"
INPUT = "dialog input[type=file]"


def play(flows):
    with tempfile.TemporaryDirectory(prefix="aq-zone-") as folder:
        file = pathlib.Path(folder) / "zone.jsonl"
        export(flows, file)
        bring_in(flows, file)


def open_zone(flows, person):
    flows.page.open("#/home")
    flows.page.sees("Requests")
    flows.page.open(f"#/data/{CONTAINER}/development/{person.record_name}/{ZONE}")
    flows.page.click("Zone tools")


def export(flows, file):
    page = flows.page
    with flows.step("an export ends with a line that vouches for the lines before it"):
        open_zone(flows, flows.grace)
        page.run(
            "const make = URL.createObjectURL;"
            "URL.createObjectURL = (blob) => { window.saved = blob; return make.call(URL, blob) }"
        )
        page.click("Export", "dialog button")
        page.sees(f"Save {ZONE}.jsonl")
        text = page.run("return await window.saved.text()")
        *lines, last = text.splitlines()
        content = "".join(f"{line}\n" for line in lines).encode()
        records = sum(line.startswith('{"record"') for line in lines)
        vouched = {"end": True, "records": records, "assets": 0, "sha256": hashlib.sha256(content).hexdigest()}
        file.write_text(text)
        page.click("Close")
        equal(json.loads(last), vouched)


def bring_in(flows, file):
    page, ada = flows.page, flows.ada
    head, odd, _ = file.read_text().splitlines()
    whole = base64.b64encode(bytes(30_000)).decode()

    def write(count, *, bad=None, end=True):
        lines = [head]
        for number in range(count):
            record = json.loads(odd)
            record["record"] |= {"recordName": f"import-{number}"}
            record["record"]["fields"] = {"content": {"type": "BYTES", "value": whole}}
            if number == bad:
                record["record"]["fields"]["content"]["value"] = 7
            lines.append(json.dumps(record, separators=(",", ":")))
        content = "".join(f"{line}\n" for line in lines)
        digest = hashlib.sha256(content.encode()).hexdigest()
        last = {"end": True, "records": count, "assets": 0, "sha256": digest}
        file.write_text(content + (json.dumps(last) if end else ""))

    def choose(words="Import"):
        page.upload(INPUT, file)
        page.click(words, "dialog footer button")

    with flows.step("a file without its last line, or with another content, is not imported at all"):
        open_zone(flows, ada)
        page.click("Import", "dialog button")
        write(3, end=False)
        choose()
        page.sees("The file has no last line", "Nothing was changed.")
        write(3)
        file.write_text(file.read_text().replace("import-2", "import-9"))
        choose()
        page.sees("The file was changed after the export")
        write(3)
        file.write_text(file.read_text().replace('"records": 3', '"records": 4').replace('"records":3', '"records":4'))
        choose()
        page.sees("The file has 3 records, but its last line says 4")
    with flows.step("an import that is refused midway says how much of it is done, and goes on from there"):
        write(250, bad=240)
        choose()
        page.sees("records before it are imported")
        expect("Nothing was changed" not in page.text(), page.text())
        write(250)
        choose()
        page.sees("250 records imported.")
        path = f"/database/1/{CONTAINER}/development/private/records/lookup"
        names = [{"recordName": f"import-{number}"} for number in (0, 240, 249)]
        found = flows.installation.call("POST", path, {"zoneID": {"zoneName": ZONE}, "records": names}, ada.token)
        equal([len(each["fields"]["content"]["value"]) for each in found["records"]], [len(whole)] * 3)
