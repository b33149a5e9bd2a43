"""Sends the object plane's and the operators' examples of Services/openapi.json; all must fit their schemas."""

import json
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import jsonschema
import referencing
import requests
from steps import Steps, Surroundings, equal, expect

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "Clients" / "python"))

from aquifer import Client, insert, update  # noqa: E402

WORLD = Surroundings.read()
STEPS = Steps("examples")
DESCRIPTION = json.loads((ROOT / "Services" / "openapi.json").read_text())
REGISTRY = referencing.Registry().with_resource(
    "urn:description", referencing.Resource(DESCRIPTION, referencing.jsonschema.DRAFT202012)
)
# They need what other examples make, or end what others need.
LAST = ["balanceShards", "removeIdentityProvider", "fetchMail", "endMail", "deleteConsumer", "purgeHistory", "resetStore", "purgeZone", "deleteStore", "resetSchema"]
LAST += ["resetDevelopment", "revokeOperator", "revokeDeveloper", "revokeRole", "deleteUser", "deleteContainer"]
# The other statuses of a story in which no zone waits for a decision, no object is in a new container, nobody has a
# session, no device is registered, and nobody has refused a mail.
STATUS = {
    "allowMail": 404,
    "resumeZone": 404,
    "endSession": 404,
    "endRegistration": 404,
    "revokeDeveloper": 404,
    "revokeRole": 404,
    "startBackup": 202,
    "startVerification": 202,
    "startScrub": 202,
    "moveShard": 202,
    # The shards are in files there.
    "splitShard": 409,
}
# Names that only answers tell: the member of an answer, and the parameter of later paths.
TOLD = {"createAPIToken": ("apiToken", "token"), "addServerKey": ("keyID", "keyID")}
# Backups need a folder of this machine.
FOLDER = tempfile.mkdtemp()
BODIES = dict.fromkeys(("startBackup", "startVerification"), {"directory": f"{FOLDER}/backup"})
QUERIES = {"fetchBackups": [("directory", FOLDER)]}
LAPTOP = "6E1F9D52-5B0C-4F5E-9A51-0A4D3C5B7E02"
NOTE, OTHER = "A1E0B9A4-3B6C-4B7E-8B58-6C1C0B1E2F01", "A1E0B9A4-3B6C-4B7E-8B58-6C1C0B1E2F03"
KNOWN = {}
alice = Client(WORLD.gateway, WORLD.container, WORLD.alice)


def check(value, *place):
    """The value must fit the schema at a place of the description."""
    pointer = "/".join(quote(part.replace("~", "~0").replace("/", "~1")) for part in place)
    jsonschema.Draft202012Validator({"$ref": f"urn:description#/{pointer}"}, registry=REGISTRY).validate(value)


def resolved(item):
    if "$ref" not in item:
        return item, None
    place = item["$ref"].removeprefix("#/").split("/")
    found = DESCRIPTION
    for part in place:
        found = found[part]
    return found, place


def send(path, method, operation):
    """Sends the example of an operation: status, content type and text of the answer."""
    values = {"container": WORLD.container, "environment": "development", "database": "private"}
    query = []
    name = operation["operationId"]
    for parameter in (resolved(parameter)[0] for parameter in operation["parameters"]):
        example = parameter.get("example")
        if parameter["in"] == "path" and example is not None:
            values[parameter["name"]] = KNOWN.get(parameter["name"], example)
        elif example is not None:
            query += [(parameter["name"], value) for value in (example if isinstance(example, list) else [example])]
    body = None
    if "requestBody" in operation:
        ((kind, content),) = operation["requestBody"]["content"].items()
        example = BODIES.get(name, content.get("example"))
        check(example, "paths", path, method, "requestBody", "content", kind, "schema")
        body = example.encode() if isinstance(example, str) else json.dumps(example).encode()
    token = WORLD.operator if {"operator": []} in operation["security"] else WORLD.alice
    server = WORLD.notifier if "servers" in operation else WORLD.gateway
    with requests.request(
        method, server + path.format(**values), params=QUERIES.get(name, query), data=body, stream=True, timeout=30,
        headers={"Authorization": f"Bearer {token}"},
    ) as answer:  # fmt: skip
        kind = answer.headers["Content-Type"]
        # A stream does not end.
        text = next(answer.iter_lines()).decode() if kind == "text/event-stream" else answer.text
        return answer.status_code, kind, text


def run(path, method, operation):
    status, kind, text = send(path, method, operation)
    # The workers tell the loads of their shards half a minute after the opening.
    patience = time.monotonic() + 300
    while operation["operationId"] == "balanceShards" and status == 503 and time.monotonic() < patience:
        time.sleep(1)
        status, kind, text = send(path, method, operation)
    equal(status, STATUS.get(operation["operationId"], 200), text)
    described, place = resolved(operation["responses"][str(status)])
    expect(kind in described["content"], f"{kind} is not described")
    value = json.loads(text) if kind == "application/json" else text
    check(value, *(place or ["paths", path, method, "responses", str(status)]), "content", kind, "schema")
    return value


def finish(path):
    """Waits until a job is done: it has found nothing."""
    while True:
        job = requests.get(WORLD.gateway + path, headers={"Authorization": f"Bearer {WORLD.operator}"}, timeout=30).json()
        if job["state"] != "running":
            return equal((job["state"], job["problems"]), ("done", []), f"{job}")
        time.sleep(0.1)


def contest():
    """Two edits at odds, and an object of another device."""
    laptop, phone = alice.store(LAPTOP), alice.store("6E1F9D52-5B0C-4F5E-9A51-0A4D3C5B7E01")
    laptop.set_up(MODEL)
    known = [page["importToken"] for page in laptop.changes()][-1]
    phone.save([update("Note", NOTE, title="Waves", body="Rough.")], wait=True)
    laptop.save(
        [update("Note", NOTE, title="Surf", body="Wild."), insert("Note", OTHER, title="Harbour")],
        after=known,
        wait=True,
    )
    alice.store("6E1F9D52-5B0C-4F5E-9A51-0A4D3C5B7E03", "shared").set_up(MODEL)


operations = [
    (path, method, operation)
    for path, item in DESCRIPTION["paths"].items()
    if path.startswith(("/mirror/", "/admin/"))
    for method, operation in item.items()
]
operations.sort(key=lambda item: LAST.index(item[2]["operationId"]) + 1 if item[2]["operationId"] in LAST else 0)
MODEL = None
for path, method, operation in operations:
    with STEPS.step(operation["operationId"]):
        answer = run(path, method, operation)
        if operation["operationId"] in TOLD:
            member, parameter = TOLD[operation["operationId"]]
            KNOWN[parameter] = answer[member]
        if operation["operationId"].startswith("start"):
            finish(path)
        if operation["operationId"] == "pushModel":
            MODEL = answer["modelHash"]
        if operation["operationId"] == "saveTransactions":
            contest()
        if operation["operationId"] in ("fetchChanges", "fetchConflicts", "fetchHistory"):
            expect(any(value for value in answer.values() if isinstance(value, list)), f"{answer}")

STEPS.done()
