"""Answers for a made-up installation: 1 million records, 10 000 users, 2 000 zones, 50 workers."""

import hashlib
import json

import large_rows
from large_rows import CONTAINER, MARKUP
from large_sample import RECORDS, USERS, ZONES, history, sample, status

TYPES = """DEFINE SCHEMA

    RECORD TYPE CD_Photo (
        "___createTime"  TIMESTAMP QUERYABLE SORTABLE,
        "___recordID"    REFERENCE QUERYABLE,
        CD_caption       STRING QUERYABLE SEARCHABLE SORTABLE,
        CD_album         STRING QUERYABLE,
        CD_stars         INT64 QUERYABLE SORTABLE,
        CD_takenAt       TIMESTAMP QUERYABLE SORTABLE,
        GRANT WRITE TO "_creator",
        GRANT CREATE TO "_icloud",
        GRANT READ TO "_world"
    );

    RECORD TYPE CD_Album (
        "___recordID"    REFERENCE QUERYABLE,
        CD_name          STRING QUERYABLE SEARCHABLE SORTABLE,
        GRANT WRITE TO "_creator",
        GRANT READ TO "_world"
    );
"""


def user(number):
    return f"_{hashlib.md5(str(number).encode()).hexdigest()}"


def users(query):
    begin = int(query.get("after", "person-0").split("-")[1])
    limit = int(query.get("limit", 50))
    words = query.get("search", "")
    found = []
    for number in range(begin, USERS):
        name = f"person-{number + 1:05}"
        if words and words not in name:
            continue
        found.append(
            {
                "name": name,
                "userRecordName": user(number),
                "email": f"{name}@example.org",
                "givenName": MARKUP,
                "familyName": "",
                "disabled": number % 97 == 3,
                "discoverable": True,
                "password": True,
                "bytes": 1_000_000 + number,
                "records": 100,
                "databases": 1,
            }
        )
        if len(found) == limit:
            return {"users": found, "isPartial": False, "after": name}
    return {"users": found, "isPartial": False}


def zones(query):
    rows = [
        {
            "container": CONTAINER,
            "environment": "development",
            "owner": user(number % 700),
            "zone": f"Trip {number + 1}",
            "sequence": 500 + number,
            "deleted": False,
            "members": number % 5,
        }
        for number in range(ZONES)
    ]
    rows[0]["zone"] = MARKUP
    return {"zones": [row for row in rows if row["owner"] == query.get("owner", row["owner"])], "silent": []}


def stores(query):
    rows = [
        {
            "container": CONTAINER,
            "environment": "development",
            "owner": user(number % 5000),
            "scope": "private",
            "store": f"store-{number:05}",
            "user": user(number % 5000),
            "device": MARKUP if number == 0 else f"Phone {number}",
            "modelHash": "b4cb" * 16,
            "transactions": 900 + number % 7,
            "exported": 900,
            "imported": 480,
            "sequence": 500,
            "createdAt": 1_795_000_000_000,
        }
        for number in range(5000)
    ]
    return {"stores": [row for row in rows if row["owner"] == query.get("owner", row["owner"])], "silent": []}


def record(number):
    return {
        "recordName": f"00000000-0000-0000-0000-{number:012}",
        "recordType": "CD_Photo",
        "recordChangeTag": format(number, "x"),
        "fields": {
            "CD_caption": {"type": "STRING", "value": MARKUP if number % 50 == 0 else f"Photo {number}"},
            "CD_album": {"type": "STRING", "value": "00000000-0000-0000-0000-000000000007"},
            "CD_stars": {"type": "INT64", "value": number % 6},
            "CD_takenAt": {"type": "TIMESTAMP", "value": 1_795_000_000_000},
        },
        "created": {"timestamp": 1_795_000_000_000, "userRecordName": user(1), "deviceID": MARKUP},
        "modified": {"timestamp": 1_795_000_500_000, "userRecordName": user(1), "deviceID": "store-00001"},
        "deleted": False,
    }


def log_lines(query):
    rows = [
        {
            "at": 1_795_000_000_000 + number,
            "process": query.get("process") or "gateway-1",
            "level": "info",
            "event": MARKUP if number == 3 else "request",
            "request": f"req-{number}",
            "facts": {"path": MARKUP, "ms": number},
        }
        for number in range(int(query.get("limit", 200)))
    ]
    return {"lines": rows, "silent": []}


FIXED = {
    "containers": lambda _: {
        "containers": [{"container": CONTAINER, "displayName": "Photos", "created": 1_795_000_000_000}]
    },
    "status": lambda _: status(),
    "sample": lambda _: sample(),
    "workers": lambda _: {"workers": status()["workers"]},
    "history": lambda _: history(),
    "users": users,
    "zones": zones,
    "stores": stores,
    "logs": log_lines,
    "usage": lambda _: {"records": RECORDS, "databases": USERS, "publicRecords": 0, "bytes": 10**12},
    "events": lambda _: {"events": large_rows.events(user(1)), "silent": []},
    "quarantine": lambda _: {"quarantine": large_rows.quarantine(user(1)), "silent": []},
    "explain": lambda _: large_rows.explain(user(1)),
    "pings": lambda _: {"pings": large_rows.pings(user(1)), "after": "", "silent": []},
    "duplicates": lambda _: {"duplicates": large_rows.duplicates(user(1)), "silent": []},
    "shares": lambda _: {"shares": large_rows.shares(user(1)), "silent": []},
    "registrations": lambda _: {"registrations": large_rows.registrations(), "countedSince": 1_790_000_000_000, "silent": ["notifier-2"]},
    "sign-ins": lambda _: {"signIns": large_rows.sign_ins()},
    "mail": lambda _: large_rows.mail(),
    "audit": lambda _: {"acts": large_rows.acts()},
    "backup": lambda _: large_rows.job("backup"),
    "scrub": lambda _: large_rows.job("scrub"),
    "verification": lambda _: large_rows.job("verification"),
    "backups": lambda _: {"backups": large_rows.backups()},
    **{name: lambda _, name=name, rows=rows: {name: rows} for name, rows in large_rows.credentials().items()},
    "subscriptions": lambda _: {"subscriptions": [], "silent": []},
}


def answer(method, path, query, body):
    noun = path[0]
    if method == "GET" and len(path) == 1 and noun in FIXED:
        return 200, FIXED[noun](query)
    if noun == "users" and len(path) == 2:
        return 200, users({})["users"][0] | {
            "quota": None,
            "holds": [],
            "memberships": [],
            "tokens": 1,
            "sessions": 0,
            "registrations": 0,
            "keys": 0,
        }
    if method == "POST" and noun == "users" and path[2:] == ["sign-out"]:
        return 200, {"signedOut": True}
    if path == ["mail", "sent"]:
        return 200, {"mails": large_rows.mails()}
    if noun == "schema":
        return 200, TYPES if len(path) == 3 else ""
    if noun == "rules":
        return 200, {"unique": []}
    if noun == "models":
        return 200, {"models": []}
    if noun == "as" and path[-1] in ("query", "zone"):
        records = [record(number) for number in range(200)]
        return 200, {"records": records, "continuationMarker": "next"} if path[-1] == "query" else {
            "zones": [{"records": records, "moreComing": True, "syncToken": "next"}]
        }
    if noun == "as" and path[-1] == "lookup":
        return 200, {"records": [record(50) | json.loads(body)["records"][0]]}
    if noun == "zone" and path[-1] == "audit":
        return 200, {"changes": [], "knownFrom": 1, "last": 0, "moreComing": False}
    if noun == "zone" and path[-1] == "conflicts":
        count = large_rows.CONFLICTS if path[4] == large_rows.DISPUTED else 0
        rows = [large_rows.conflict(user(1), number) for number in range(1, count + 1)]
        rest = [row for row in rows if row["number"] > int(query.get("after", 0))]
        return 200, {
            "conflicts": rest[:200],
            "lastConflict": rest[:200][-1]["number"] if rest else 0,
            "moreComing": len(rest) > 200,
            "evicted": 0,
        }
    return 404, {
        "uuid": "6F",
        "serverErrorCode": "NOT_FOUND",
        "reason": f"There is no operator call '/{'/'.join(path)}'",
    }
