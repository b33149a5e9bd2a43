"""Rows of the made-up installation's lists, with markup in each place that people and devices can fill."""

AT = 1_795_000_000_000
CONTAINER = "iCloud.org.example.photos"
MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'
ZONE = "com.apple.coredata.cloudkit.zone"
# A zone whose journal has more than the 200 conflicts of one answer.
DISPUTED, CONFLICTS = "Trip 2000", 450


def place(owner):
    return {"container": CONTAINER, "environment": "development", "owner": owner}


def events(owner):
    kinds = ("setup", "import", "export", "export")
    return [
        place(owner)
        | {
            "store": "store-00001",
            "user": owner,
            "identifier": f"event-{number}",
            "type": kinds[number % 4],
            "startedAt": AT + 1000 * number,
            "endedAt": AT + 1000 * number + 40,
            "succeeded": number % 7 != 3,
            "savedCount": number % 3,
            "deletedCount": 0,
            "error": {"reason": MARKUP} if number % 7 == 3 else None,
        }
        for number in range(12)
    ]


def quarantine(owner):
    return [
        place(owner)
        | {
            "store": "store-00001",
            "user": owner,
            "entity": "Photo",
            "objectID": MARKUP if number == 1 else "6E1F9D52-5B0C-4F5E-9A51-0A4D3C5B7E02",
            "cause": "missingTarget",
            "reason": "there is no such object for Photo.ratings: " + (MARKUP if number == 1 else "E01"),
            "serverErrorCode": "NOT_FOUND",
            "ckErrorCode": 11,
            "cocoaErrorCode": 134060,
            "attempts": 4,
            "firstDate": AT,
            "lastDate": AT + 60_000,
            "retryDate": AT + 3_600_000 if number else None,
        }
        for number in range(3)
    ]


def conflict(owner, number):
    return {
        "number": number,
        "kind": "lostValue",
        "state": "lost",
        "objectID": f"lost-{number}",
        "entity": "Photo",
        "date": AT + number,
        "lostBy": {"userRecordName": owner, "deviceID": "store-00001"},
        "lost": {"caption": "mine"},
        "kept": {"caption": "theirs"},
        "ancestor": None,
    }


def explain(owner):
    rows = [
        {
            "store": store,
            "device": device,
            "objectID": "O",
            "syncState": state,
            "reasons": [{"code": code, "text": text}],
            "pendingTransactions": [],
            "conflicts": [],
            "zoneID": {"zoneName": ZONE, "ownerRecordName": owner},
            "recordChangeTag": "1d",
            "isDeleted": False,
        }
        for store, device, state, code, text in (
            ("store-00001", MARKUP, "clean", "exported", "The record has the object's state."),
            ("store-00002", "Tablet", "clean", "exported", "The record has the object's state."),
        )
    ]
    change = {"sequence": 29, "recordChangeTag": "1d"}
    phone, tablet = {"store": "store-00001", "device": MARKUP}, {"store": "store-00002", "device": "Tablet"}
    way = [
        phone | {"step": "saved", "at": AT, "transaction": 7, "properties": ["caption", "stars"]},
        phone | change | {"step": "exported", "at": AT + 180},
        tablet | change | {"step": "pinged", "at": AT + 185, "notifier": "notifier-1"},
        tablet | change | {"step": "imported", "at": AT + 420},
        phone | {"step": "failed", "at": AT + 900, "reason": f"export: {MARKUP}"},
        {"store": "store-00003", "device": "Old telephone", "step": "awaited"}
        | change
        | {"reason": "the device did not listen when the change came"},
    ]
    return {"explain": rows, "way": way, "silent": []}


def pings(owner):
    return [
        place(owner)
        | {
            "notifier": "notifier-1",
            "zone": MARKUP if number == 2 else ZONE,
            "at": AT + 1000 * number,
            "sequence": 29 + number,
            "reason": "subscription" if number == 3 else "zone",
            "subscription": MARKUP,
            "origin": MARKUP if number == 1 else "store-00001",
            "listeners": number % 3,
            "devices": ["store-00002", MARKUP][: number % 3],
        }
        for number in range(6)
    ]


def shares(owner):
    return [
        place(owner)
        | {
            "zone": ZONE,
            "share": f"share-{number}",
            "root": "",
            "title": MARKUP if number == 0 else f"Trip to the dunes {number}",
            "publicPermission": "READ_ONLY" if number == 1 else "NONE",
            "participants": 2 + number,
            "members": 1 + number,
            "requesters": number % 2,
        }
        for number in range(6)
    ]


def registrations():
    return [
        {
            "id": 900 - number,
            "container": CONTAINER,
            "environment": "production" if number % 2 else "development",
            "user": MARKUP if number % 5 == 0 else f"person-{number}",
            "device": MARKUP if number % 3 == 0 else f"0C7A7E54-52F2-4B2E-9C55-{number:012}",
            "address": "apns sandbox 01234567…" if number % 2 else "web updates.push.services.mozilla.example",
            "hearsEveryZone": number % 2 == 0,
            "renewed": AT - 60_000 * number,
            **({"lastPush": AT - 1000 * number, "delivered": 12_345 * number, "failed": number % 4} if number % 3 else {}),
            **({"lastFailure": MARKUP if number % 2 else "TooManyRequests"} if number % 4 else {}),
        }
        for number in range(120)
    ]


def mail():
    return {
        "server": "smtps://mail.example.org",
        "from": "photos@example.org",
        "linkURL": "https://photos.example.org",
        "waiting": 12_000,
        "sentInDay": 4800,
        "bouncedInDay": 31,
        "expiredInDay": 2,
        "lastFailure": MARKUP,
        "lastFailureAt": AT - 90_000,
    }


def mails():
    return [
        {
            "number": 900 - number,
            "at": AT - 60_000 * number,
            "container": CONTAINER,
            "inviter": MARKUP if number % 5 == 0 else f"_0C7A7E5452F24B2E9C55{number:012}",
            "email": f"person-{number}@a-long-name-of-a-company.example.org",
            "outcome": ["sent", "bounced", "expired"][number % 3],
            **({"reason": "RCPT failed: 550 (550)"} if number % 3 else {}),
        }
        for number in range(90)
    ]


def sign_ins():
    return [
        {
            "number": 900 - number,
            "at": AT - 60_000 * number,
            "way": "password" if number % 2 else "provider",
            "address": "2001:db8:1:2:3:4:5:6",
            "client": MARKUP if number % 4 else "Firefox on Linux",
            "container": CONTAINER,
            "environment": "development",
        }
        | ({"user": MARKUP, "session": f"s{number}"} if number % 3 else {"refusal": "wrong"})
        | ({} if number % 2 else {"provider": "acme"})
        for number in range(40)
    ]


def acts():
    return [
        {
            "number": 900 - number,
            "at": AT - 60_000 * number,
            "name": "_operator" if number % 3 else MARKUP,
            "role": "operator",
            "container": CONTAINER,
            "method": "POST",
            "path": f"/admin/1/containers/{CONTAINER}" if number % 2 else f"/admin/1/users/{MARKUP}/disable",
            "query": "dryRun=true" if number % 4 == 1 else "",
            "status": 200 if number % 5 else 404,
        }
        for number in range(40)
    ]


def backups():
    return [
        {
            "directory": f"/var/backups/aquifer-2026-11-{20 + number}",
            "startedAt": AT,
            "createdAt": AT + 86_400_000 * number,
            "shards": 64,
            "records": 1_000_000 - 1000 * number,
            "bytes": 40_000_000_000,
            "isOfThisInstallation": number != 1,
            "missing": [{"shard": 3, "reason": MARKUP}] if number == 2 else [],
        }
        for number in range(4)
    ] + [{"directory": f"/var/backups/{MARKUP}", "problem": "manifest.json can't be read"}]


def job(kind):
    return {
        "job": kind,
        "state": "running" if kind == "scrub" else "done",
        "startedAt": AT,
        "directory": None if kind == "scrub" else "/var/backups/aquifer-2026-11-23",
        "done": 23 if kind == "scrub" else 64,
        "shards": 64,
        "records": 1_000_000,
        "bytes": 40_000_000_000,
        "problems": [f"shard 3: {MARKUP}"] if kind == "verification" else [],
        "missing": [],
    }


def duplicates(owner):
    return [
        {
            "container": CONTAINER,
            "environment": "development",
            "owner": owner,
            "zone": MARKUP if number == 0 else f"Trip {number}",
            "recordType": "CD_Album",
            "fields": "CD_name",
            "count": 2 + number,
            "merging": number % 3,
            "records": [MARKUP if number == 0 else f"album-{number}", f"album-{number + 1}"],
        }
        for number in range(1000)
    ]


def credentials():
    made = {"container": CONTAINER, "environment": "development", "created": AT}
    return {
        "tokens": [
            made | {"apiToken": "4f9a31c2…", "allowedOrigins": ["https://app.example.org"], "callbackURL": MARKUP},
            made | {"apiToken": "b07d55e1…", "allowedOrigins": [], "callbackURL": ""},
        ],
        "keys": [made | {"keyID": "9c1e" * 16, "name": MARKUP, "user": "person-00001"}],
        "roles": [
            {"role": "operator", "user": "person-00001", "granted": AT},
            {"role": "developer", "user": MARKUP, "container": CONTAINER, "granted": AT},
        ],
        "sessions": [
            made
            | {"session": f"s{number}", "user": MARKUP if number == 1 else "person-00001", "expires": AT}
            | {"client": MARKUP, "way": "provider", "provider": "acme", "lastUsed": AT}
            for number in range(3)
        ],
    }
