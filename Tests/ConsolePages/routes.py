"""Every page of the console, with a word that it shows when it is there."""

ZONE = "com.apple.coredata.cloudkit.zone"


def routes(container, owner, zone, record, store):
    database = f"#/data/{container}/development/{owner}"
    return {
        "home": ("#/home", "Shards"),
        "data": ("#/data", "Private databases"),
        "database": (database, zone),
        "zone": (f"{database}/{zone}", "Find records"),
        "record": (f"{database}/{zone}/{record}", "As an object"),
        "stores": ("#/sync", "Devices"),
        "store": (f"#/sync/stores/{owner}/{store}", "Saved transactions"),
        "quarantine": ("#/sync/quarantine", "Held back"),
        "conflicts": ("#/sync/conflicts", "conflict"),
        "explain": (f"#/sync/explain?object={record}&user={owner}", "Why does it not arrive?"),
        "events": ("#/sync/events", "Live events"),
        "pings": (f"#/sync/pings?user={owner}", "Listen to a user"),
        "types": ("#/schema", "CD_Photo"),
        "text": ("#/schema/text", "The schema as a text"),
        "promotion": ("#/schema/diff", "Promotion"),
        "models": ("#/schema/models", "Check and push a model"),
        "rules": ("#/schema/rules", "Duplicates"),
        "users": ("#/people", "Users"),
        "user": (f"#/people/users/{owner}", "What they hold"),
        "shares": ("#/people/shares", "Shares"),
        "tokens": ("#/people/tokens", "API tokens"),
        "roles": ("#/people/roles", "Roles"),
        "sessions": ("#/people/sessions", "Sessions"),
        "registrations": ("#/people/registrations", "Woken devices"),
        "signIns": ("#/people/sign-ins", "Sign-ins"),
        "mail": ("#/people/mail", "Mails"),
        "audit": ("#/people/audit", "Audit"),
        "backups": ("#/operations", "Back up now"),
        "logs": ("#/operations/logs", "Name of the request"),
        "slow": ("#/operations/slow", "Slow requests"),
        "versions": ("#/operations/versions", "Keys of the bus"),
    }
