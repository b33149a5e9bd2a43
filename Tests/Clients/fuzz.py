"""Fuzzes a running installation as Alice, with schemathesis and Services/openapi.json. No answer may contain Bob's marker."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import requests

from steps import Steps, Surroundings, equal, expect, percent_encoded

HERE = Path(__file__).parent
SECONDS = int(os.environ.get("CLIENT_FUZZ_SECONDS", "60"))
MARKER = "zmarkerz-bobs-own-7d1f"
WORLD = Surroundings.read()
STEPS = Steps("schemathesis")


def call(user, action, body, database="private"):
    url = f"{WORLD.database(database)}/{action}?ckAPIToken={WORLD.api_token}&ckWebAuthToken={percent_encoded(user)}"
    answer = requests.post(url, json=body, timeout=30)
    equal(answer.status_code, 200, f"{action} {answer.text}")
    return answer.json()


def push_model():
    """Pushes the sample model as an operator; returns its hash."""
    model = HERE.parent.parent / "deploy/sample/Sample.xcdatamodeld/Sample.xcdatamodel/contents"
    url = f"{WORLD.gateway}/mirror/1/{WORLD.container}/development/model"
    answer = requests.put(url, data=model.read_bytes(), headers={"Authorization": f"Bearer {WORLD.operator}"}, timeout=30)
    equal(answer.status_code, 200, answer.text)
    return answer.json()["modelHash"]


def furnish_store(user, text, store, model):
    """Makes a store, and saves a tag."""

    def send(method, path, body):
        url = f"{WORLD.gateway}/mirror/1/{WORLD.container}/development/private/stores/{store}{path}"
        answer = requests.request(method, url, json=body, headers={"Authorization": f"Bearer {user}"}, timeout=30)
        equal(answer.status_code, 200, answer.text)

    send("PUT", "", {"modelHash": model})
    tag = {"changeType": "insert", "entity": "Tag", "objectID": "tag", "attributes": {"name": text}}
    send("POST", "/transactions?wait=export", {"transactions": [{"transactionID": "1", "changes": [tag]}]})


def furnish(user, text, zone):
    """Makes a zone with records and a subscription; returns its owner."""
    call(user, "zones/modify", {"operations": [{"operationType": "create", "zone": {"zoneID": {"zoneName": zone}}}]})
    for name in [zone, "_defaultZone"]:
        records = [
            {"operationType": "forceUpdate", "record": {"recordName": record, "recordType": "Note", "fields": {"title": {"value": text}, "n": {"value": n}}}}
            for n, record in enumerate(["a", "b", text])
        ]
        answer = call(user, "records/modify", {"operations": records, "zoneID": {"zoneName": name}, "atomic": False})
        expect(all("serverErrorCode" not in record for record in answer["records"]), f"{answer}")
    subscription = {"subscriptionID": zone, "subscriptionType": "zone", "zoneID": {"zoneName": zone}, "notificationInfo": {"alertBody": text}}
    made = call(user, "subscriptions/modify", {"operations": [{"operationType": "create", "subscription": subscription}]})["subscriptions"]
    equal(made[0]["notificationInfo"]["alertBody"], text)
    upload = call(user, "assets/upload", {"tokens": [{"recordType": "Note", "fieldName": "file", "recordName": "a"}]})["tokens"][0]["url"]
    receipt = requests.post(upload, data=text.encode(), timeout=30).json()["singleFile"]
    kept = {"operationType": "forceUpdate", "record": {"recordName": "a", "recordType": "Note", "fields": {"file": {"value": receipt}}}}
    answer = call(user, "records/modify", {"operations": [kept], "zoneID": {"zoneName": zone}})
    expect("serverErrorCode" not in answer["records"][0], f"the asset is not stored: {answer}")
    found = call(user, "records/query", {"query": {"recordType": "Note"}, "zoneID": {"zoneName": zone}})
    expect(any(record["fields"]["title"]["value"] == text for record in found["records"]), "the records are not there")
    return found["records"][0]["zoneID"]["ownerRecordName"]


def pointed(description):
    """The API description, restricted to this container and without credentials."""
    parameters = description["components"]["parameters"]
    parameters["container"]["schema"] = {"type": "string", "enum": [WORLD.container]}
    parameters["environment"]["schema"] = {"type": "string", "enum": ["development"]}
    # The fuzzer never chooses credentials: it always acts as Alice.
    description["components"]["securitySchemes"] = {}
    # Held requests would take the fuzzer's time, and streams do not end.
    del description["paths"]["/mirror/1/{container}/{environment}/pings"]
    # Alice is no operator, and a refusal says nothing about a call.
    for path in [path for path in description["paths"] if path.startswith("/admin/")]:
        del description["paths"][path]
    for path in description["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
            operation["parameters"] = [parameter for parameter in operation.get("parameters", []) if parameter.get("name") != "wait"]
    return description


def main():
    with STEPS.step("has data of Alice's, and of Bob's with a marker"):
        owners = [furnish(WORLD.alice, "Alice's", "Fuzz"), furnish(WORLD.bob, MARKER, "Trips")]
        model = push_model()
        furnish_store(WORLD.alice, "Alice's", "fuzz", model)
        furnish_store(WORLD.bob, MARKER, "trips", model)
    description = json.loads((HERE.parent.parent / "Services/openapi.json").read_text())
    operations = sum(len(item) for path, item in description["paths"].items() if not path.startswith("/admin/"))
    with tempfile.TemporaryDirectory() as folder, STEPS.step(f"finds no 5xx, no hang, no answer against the description and nothing of Bob's in {operations} operations"):
        schema = Path(folder) / "openapi.json"
        schema.write_text(json.dumps(pointed(description)))
        environment = os.environ | {"SCHEMATHESIS_HOOKS": str(HERE / "fuzz_hooks.py"), "FUZZ_MARKER": MARKER, "FUZZ_OWNERS": ",".join(owners), "FUZZ_MODEL": model, "PYTHONPATH": str(HERE)}
        # One worker, because the parser of Python 3.11 that schemathesis calls sometimes fails with several threads.
        command = [
            str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(HERE / "schemathesis.toml"), "--no-color", "run", str(schema),
            "--url", WORLD.gateway, "--max-time", str(SECONDS), "--seed", "1", "--request-timeout", "10",
            "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,nothing_of_bobs",
        ]
        if WORLD.authority:
            command += ["--tls-verify", WORLD.authority]
        ended = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, timeout=SECONDS + 120)
        if ended.returncode:
            raise AssertionError(f"schemathesis ended with {ended.returncode}:\n{ended.stdout[-20000:]}\n{ended.stderr[-2000:]}")
        print("\n".join(f"· schemathesis: {line.strip()}" for line in ended.stdout.splitlines() if " generated, " in line))
    with STEPS.step("left Bob's data as they were"):
        found = call(WORLD.bob, "records/query", {"query": {"recordType": "Note"}, "zoneID": {"zoneName": "Trips"}})
        equal(sorted(record["recordName"] for record in found["records"]), sorted(["a", "b", MARKER]))
        equal({record["fields"]["title"]["value"] for record in found["records"]}, {MARKER})
        equal([item["notificationInfo"]["alertBody"] for item in call(WORLD.bob, "subscriptions/list", {})["subscriptions"]], [MARKER])
    STEPS.done()


main()
