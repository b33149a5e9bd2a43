"""Generates a client from Services/openapi.json, imports all of it, and uses it against a running installation."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path

from openapi_spec_validator import validate

from steps import Steps, Surroundings, equal, expect

HERE = Path(__file__).parent
DESCRIPTION = HERE.parent.parent / "Services" / "openapi.json"
WORLD = Surroundings.read()
STEPS = Steps("openapi-python-client")


def generate(folder):
    """Generates the package `made` in a folder."""
    # The generator formats its code with ruff, which is in the folder of this interpreter.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"content_type_overrides": {"application/x-ndjson": "text/plain"}}))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(DESCRIPTION), "--meta", "none"]
    command += ["--config", str(settings), "--output-path", str(folder / "made")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    equal(ended.returncode, 0, ended.stdout + ended.stderr)
    expect("Warning" not in ended.stdout + ended.stderr, ended.stdout + ended.stderr)


def modules(package):
    return [importlib.import_module(found.name) for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]


with tempfile.TemporaryDirectory() as name:
    with STEPS.step("the description is one"):
        description = json.loads(DESCRIPTION.read_text())
        validate(description)
    with STEPS.step("a client is made of it without a warning, and all of it is Python"):
        generate(Path(name))
        sys.path.insert(0, name)
        import made

        expect(len(modules(made)) > 100, "modules are missing")
    with STEPS.step("its record is stored, and comes back as its types say"):
        from made.api.records import look_up_records, modify_records
        from made.models import LookupRecordsRequest, ModifyRecordsRequest, Record, RecordsAnswer

        client = made.AuthenticatedClient(base_url=WORLD.gateway, token=WORLD.alice)
        place = (WORLD.container, "development", "private")
        note = {"recordName": "n", "recordType": "Note", "fields": {"title": {"value": "Dunes"}, "count": {"value": 7}}}
        body = ModifyRecordsRequest.from_dict({"operations": [{"operationType": "create", "record": note}]})
        saved = modify_records.sync(*place, client=client, body=body)
        expect(isinstance(saved, RecordsAnswer), f"{saved}")
        found = look_up_records.sync(*place, client=client, body=LookupRecordsRequest.from_dict({"records": [{"recordName": "n"}]}))
        expect(isinstance(found, RecordsAnswer) and isinstance(found.records[0], Record), f"{found}")
        equal(found.records[0].to_dict()["fields"]["title"]["value"], "Dunes")

STEPS.done()
