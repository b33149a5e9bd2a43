"""Hooks of schemathesis that change each request and check each answer."""

import os
import random

import schemathesis

MARKER = os.environ["FUZZ_MARKER"]
CREDENTIALS = {"ckAPIToken": os.environ["CLIENT_API_TOKEN"], "ckWebAuthToken": os.environ["CLIENT_ALICE"]}
CHANCE = random.Random(1)

# Known values, including Bob's zone and name. Nearly all randomly drawn values would be refused at once.
KNOWN = {
    "zoneName": ["Fuzz", "_defaultZone", "Trips"],
    "ownerRecordName": os.environ["FUZZ_OWNERS"].split(","),
    "recordName": ["a", "b", "c"],
    "recordType": ["Note"],
    "fieldName": ["title", "n", "file"],
    "subscriptionID": ["s1", "Fuzz", "Trips"],
    "recordChangeTag": ["1", "2", "3"],
    "modelHash": [os.environ["FUZZ_MODEL"]],
    "entity": ["Tag"],
    "objectID": ["tag", "other"],
}
PATHS = {
    "id": ["fuzz", "fuzz", "trips"],
    "zone": ["Fuzz", "com.apple.coredata.cloudkit.zone", "Trips"],
    "objectID": ["tag", "other"],
    "number": ["1", "2"],
}


def pointed(value):
    """The body with known values for most of its names."""
    if isinstance(value, list):
        return [pointed(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {key: CHANCE.choice(KNOWN[key]) if key in KNOWN and CHANCE.random() < 0.75 else pointed(element) for key, element in value.items()}


@schemathesis.hook
def before_call(context, case, kwargs):
    # A query that was left out on purpose is no dictionary.
    case.query = {**(case.query if isinstance(case.query, dict) else {}), **CREDENTIALS}
    if CHANCE.random() < 0.7 and isinstance(case.path_parameters, dict) and "database" in case.path_parameters:
        case.path_parameters["database"] = "private"
    if isinstance(case.path_parameters, dict):
        for name in PATHS.keys() & case.path_parameters.keys():
            if CHANCE.random() < 0.8:
                case.path_parameters[name] = CHANCE.choice(PATHS[name])
    if isinstance(case.body, dict) and CHANCE.random() < 0.8:
        case.body = pointed(case.body)
        if "zoneID" in case.body and CHANCE.random() < 0.5:
            case.body["zoneID"] = {"zoneName": CHANCE.choice(["Fuzz", "_defaultZone"])}


@schemathesis.check
def nothing_of_bobs(context, response, case):
    if MARKER in response.text or any(MARKER in value for values in response.headers.values() for value in values):
        raise AssertionError("The answer shows another user's data")
