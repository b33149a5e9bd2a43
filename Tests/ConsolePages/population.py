"""Fills an installation as its apps and operators do: people, devices, photos, a conflict, a share."""

import base64
import json
import pathlib
import struct
import urllib.error
import urllib.request
import uuid
import zlib

CONTAINER = "iCloud.org.example.photos"
OTHER_CONTAINER = "iCloud.org.example.sketches"
PASSWORD = "correct horse"
MODEL = pathlib.Path(__file__).resolve().parents[2] / "Clients/Photos/Photos.xcdatamodeld/Photos.xcdatamodel/contents"
CAPTION = b'<attribute name="caption" optional="YES" attributeType="String"/>'
DECIDED = CAPTION.replace(
    b"/>", b'><userInfo><entry key="AquiferConflictPolicy" value="manual"/></userInfo></attribute>'
)
CAPTIONS = ["Morning on the dunes", "Waiting for the ferry", "The day we got lost", "Above it all", "Two umbrellas"]
TAGS = ["desert", "family", "summit"]
# What a page must show as the text that it is, wherever an app may store it.
MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'


def name():
    return str(uuid.uuid4()).upper()


def picture(red, size=120):
    """A picture as PNG: a gradient."""
    rows = b"".join(
        b"\0" + b"".join(bytes((min(255, red + x), min(255, 80 + y), 160)) for x in range(size)) for y in range(size)
    )

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Installation:
    """A running installation, spoken to with its operator token or as one of its users."""

    def __init__(self, gateway, operator_token):
        self.gateway = gateway
        self.operator_token = operator_token

    def call(self, method, path, body=None, token=None, request_id=None):
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token or self.operator_token}"}
        if request_id:
            headers["X-Request-ID"] = request_id
        request = urllib.request.Request(self.gateway + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()[:400]}") from None

    def admin(self, method, path, body=None):
        return self.call(method, f"/admin/1/{path}", body)


class Person:
    """A user with a telephone and a tablet."""

    def __init__(self, installation, model_hash, given, device_names):
        self.installation = installation
        self.name = given.lower()
        made = installation.admin(
            "POST",
            "users",
            {
                "name": self.name,
                "givenName": given,
                "familyName": "Example",
                "email": f"{self.name}@example.org",
                "password": PASSWORD,
                "discoverable": True,
            },
        )
        self.record_name, self.token = made["userRecordName"], made["webAuthToken"]
        self.stores = [name() for _ in device_names]
        for store, device in zip(self.stores, device_names):
            self.store("PUT", store, "", {"modelHash": model_hash, "device": {"name": device}})
        self.photos = []

    def store(self, method, store, path, body=None, request_id=None):
        return self.installation.call(
            method, f"/mirror/1/{CONTAINER}/development/private/stores/{store}{path}", body, self.token, request_id
        )

    def save(self, store, changes, request_id=None, **more):
        transaction = {"transactionID": name(), "author": "app", "changes": changes, **more}
        body = {"transactions": [transaction]}
        return self.store("POST", store, "/transactions?wait=export", body, request_id)

    def wake(self, url, secret="a secret of sixteen"):
        """Registers a server of the app, which hears of this person's changes."""
        body = {"webhook": {"url": url, "secret": secret}, "clientId": "server-1", "everyZone": True}
        self.installation.call("POST", f"/device/1/{CONTAINER}/development/tokens/register", body, self.token)

    def add_photos(self):
        tags = [name() for _ in TAGS]
        changes = [insert("Tag", tag, {"name": text}) for tag, text in zip(tags, TAGS)]
        for number, caption in enumerate(CAPTIONS):
            self.photos.append(name())
            values = {
                "caption": caption,
                "addedAt": f"2026-11-{10 + number}T07:33:24.123Z",
                "picture": base64.b64encode(picture(40 * number)).decode(),
            }
            changes.append(insert("Photo", self.photos[-1], values, tags=[tags[number % 3]]))
            changes.append(insert("Rating", name(), {"stars": number % 6, "who": self.name}, photo=self.photos[-1]))
        self.save(self.stores[0], changes)

    def disagree(self):
        """Both devices give one photo a caption without knowing of each other; the second one is markup."""
        self.store("GET", self.stores[1], "/changes")
        known = self.store("GET", self.stores[0], "/changes")["importToken"]
        for store, caption in zip(self.stores, ("Dunes before breakfast", MARKUP)):
            update = {
                "changeType": "update",
                "entity": "Photo",
                "objectID": self.photos[0],
                "attributes": {"caption": caption},
            }
            self.save(store, [update], importToken=known)

    def lose_a_rating(self):
        """A photo names a rating that no device has saved: its export is held back."""
        self.save(self.stores[0], [insert("Photo", name(), {"caption": "A rating is missing"}, ratings=[name()])])

    def share(self):
        self.store(
            "POST",
            self.stores[0],
            "/shares",
            {
                "objectIDs": self.photos[1:2],
                "to": None,
                "title": "Ferry trip",
                "publicPermission": "READ_ONLY",
                "participants": [],
            },
        )


def insert(entity, object_id, attributes, **relationships):
    return {
        "changeType": "insert",
        "entity": entity,
        "objectID": object_id,
        "attributes": attributes,
        "relationships": relationships,
    }


def populate(installation):
    """Returns Ada, who has a conflict, a held-back change and a share, and Grace, whose tablet is named by markup."""
    installation.admin("POST", "containers", {"container": CONTAINER})
    installation.admin("POST", f"containers/{CONTAINER}", {"displayName": "Photos"})
    installation.admin("POST", "containers", {"container": OTHER_CONTAINER})
    model = MODEL.read_bytes().replace(CAPTION, DECIDED)
    model_hash = installation.call("PUT", f"/mirror/1/{CONTAINER}/development/model", model)["modelHash"]
    ada = Person(installation, model_hash, "Ada", ["Ada’s telephone", "Ada’s tablet"])
    grace = Person(installation, model_hash, "Grace", ["Grace’s telephone", MARKUP])
    for person in (ada, grace):
        person.add_photos()
    ada.disagree()
    ada.lose_a_rating()
    ada.share()
    installation.admin("POST", "push-services", {"name": "servers", "kind": "webhook"})
    ada.wake("https://photos.example.org/hook")
    installation.admin(
        "POST",
        "tokens",
        {"container": CONTAINER, "environment": "development", "allowedOrigins": ["https://photos.example.org"]},
    )
    return ada, grace
