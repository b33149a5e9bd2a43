"""Registers devices, and plays the services that wake them: Apple's and a browser's, over HTTP/2 by nghttpx."""

import base64
import contextlib
import http.server
import json
import os
import threading
import time
import uuid
from collections import Counter

import http_ece
import requests
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from http2_front import http2_front
from steps import Steps, Surroundings, equal, expect
from webdriver import until

WORLD = Surroundings.read()
STEPS = Steps("push")
CERTIFICATES = os.environ["PUSH_CERTIFICATES"]
TOPIC = "org.example.photos"
DEVICE = "0123456789abcdef" * 4
FIELDS = {"title": {"value": "Surf"}}


def plain(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def bare(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def claims(token, key):
    """The header and claims of a token, whose signature must be the key's."""
    head, body, signature = token.split(".")
    numbers = bare(signature)
    pair = (int.from_bytes(numbers[:32]), int.from_bytes(numbers[32:]))
    key.verify(encode_dss_signature(*pair), f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))
    return json.loads(bare(head)), json.loads(bare(body))


class Vendor(http.server.BaseHTTPRequestHandler):
    """Keeps Apple's rules and those of RFC 8030, and what it got."""

    protocol_version = "HTTP/1.1"
    pushes, tokens, gone, away = [], [], set(), []

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, reason, headers = self.judged(body)
        if status in (200, 201):
            self.pushes.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        content = b"" if status in (200, 201) else json.dumps({"reason": reason}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def judged(self, body):
        # nghttpx names the protocol of the client.
        if not self.headers.get("Via", "").startswith("2 "):
            return 505, "not HTTP/2", {}
        if self.away:
            self.away.pop()
            return 503, "ServiceUnavailable", {"Retry-After": "1"}
        if self.path in self.gone:
            return 410, "Unregistered", {}
        return (201, "", {}) if self.path.startswith("/push/") else self.judged_by_apple(body)

    def judged_by_apple(self, body):
        token = self.headers["authorization"].removeprefix("bearer ")
        header, told = claims(token, APPLE.public_key())
        if token not in self.tokens:
            self.tokens.append(token)
        if len(self.tokens) > 2:
            return 429, "TooManyProviderTokenUpdates", {}
        if header["kid"] != "KEY" or told["iss"] != "TEAM":
            return 403, "InvalidProviderToken", {}
        if abs(time.time() - told["iat"]) > 3600:
            return 403, "ExpiredProviderToken", {}
        if self.headers["apns-topic"] != TOPIC:
            return 400, "BadTopic", {}
        if len(body) > 4096:
            return 413, "PayloadTooLarge", {}
        if len(self.headers["apns-collapse-id"]) > 64:
            return 400, "BadCollapseId", {}
        silent = json.loads(body)["aps"].keys() == {"content-available"}
        wanted = ("background", "5") if silent else ("alert", "10")
        if (self.headers["apns-push-type"], self.headers["apns-priority"]) != wanted:
            return 400, "BadPriority", {}
        return 200, "", {}

    def log_message(self, *_):
        pass


APPLE = ec.generate_private_key(ec.SECP256R1())


@contextlib.contextmanager
def vendors():
    """The address of all vendors."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
    # More than the default of five may wait while the services send many pushes at a time.
    server.socket.listen(128)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with http2_front(server.server_port, CERTIFICATES) as address:
            yield address
    finally:
        server.shutdown()


def call(method, path, body=None, token=WORLD.alice, status=200):
    answer = requests.request(
        method, WORLD.gateway + path, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=30
    )
    equal(answer.status_code, status, f"{path} {answer.text}")
    return answer.json()


def tokens(name, body, token=WORLD.alice):
    return call("POST", f"/device/1/{WORLD.container}/development/tokens/{name}", body, token)


def save(zone="Trips", **more):
    """Saves a new record of Alice's."""
    record = {"recordName": str(uuid.uuid4()), "recordType": "Note", "fields": FIELDS} | more
    body = {"operations": [{"operationType": "create", "record": record}], "zoneID": {"zoneName": zone}}
    answer = call("POST", f"/database/1/{WORLD.container}/development/private/records/modify", body)
    expect("serverErrorCode" not in answer["records"][0], f"{answer}")
    return record["recordName"]


def pushed(path, what="a push arrives"):
    """The pushes to a path since the last question, at least one."""
    until(lambda: any(push[0] == path for push in Vendor.pushes), what)
    found = [push for push in Vendor.pushes if push[0] == path]
    Vendor.pushes[:] = [push for push in Vendor.pushes if push[0] != path]
    return found


def registrations():
    return call("GET", "/admin/1/registrations", token=WORLD.operator)["registrations"]


def main():
    apple = f"/3/device/{DEVICE}"
    call("POST", f"/database/1/{WORLD.container}/development/private/zones/modify",
         {"operations": [{"operationType": "create", "zone": {"zoneID": {"zoneName": "Trips"}}}]})  # fmt: skip
    with vendors() as address:
        with STEPS.step("without a service nothing is registered"):
            equal(tokens("register", {"apnsToken": DEVICE}), {})
            equal(registrations(), [])

        with STEPS.step("a change wakes Apple's device silently, by one token and over HTTP/2"):
            pem = APPLE.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ).decode()
            service = {"name": "apple", "kind": "apns", "teamID": "TEAM", "keyID": "KEY", "topic": TOPIC}
            call("POST", "/admin/1/push-services", service | {"privateKey": pem, "url": address}, WORLD.operator)
            tokens("register", {"apnsToken": DEVICE, "clientId": "phone", "everyZone": True})
            equal([row["device"] for row in registrations()], ["phone"])
            save()
            ((_, headers, body),) = pushed(apple)
            equal(json.loads(body)["aps"], {"content-available": 1})
            equal(json.loads(body)["ck"]["met"]["zid"], "Trips")

        with STEPS.step("many saves make few pushes, and the last one has the latest token"):
            for _ in range(30):
                save()
            latest = call(
                "POST", f"/database/1/{WORLD.container}/development/private/zones/lookup",
                {"zones": [{"zoneName": "Trips"}]},
            )["zones"][0]["syncToken"]  # fmt: skip
            found = []
            until(
                lambda: found.extend(pushed(apple)) or json.loads(found[-1][2])["ck"]["met"]["tok"] == latest,
                "the last push has the zone's token",
            )
            expect(len(found) <= 6, f"{len(found)} pushes of 30 saves")
            equal(len(Vendor.tokens), 1)

        with STEPS.step("a subscription's alert is shown, and its values come along"):
            subscription = {
                "subscriptionID": "surf", "subscriptionType": "query", "firesOn": ["create"],
                "query": {"recordType": "Note"}, "zoneID": {"zoneName": "Trips"},
                "notificationInfo": {"alertBody": "New note", "shouldBadge": True, "additionalFields": ["title"]},
            }  # fmt: skip
            call("POST", f"/database/1/{WORLD.container}/development/private/subscriptions/modify",
                 {"operations": [{"operationType": "create", "subscription": subscription}]})  # fmt: skip
            name = save()
            alert = until(
                lambda: next((json.loads(body) for _, _, body in pushed(apple) if b"alert" in body), None), "an alert"
            )
            equal((alert["aps"]["alert"]["body"], alert["ck"]["qry"]["rid"]), ("New note", name))
            equal(alert["ck"]["qry"]["af"], {"title": "Surf"})

        with STEPS.step("a service that is away for a while loses nothing"):
            Vendor.away.extend([1, 2])
            name = save()
            until(
                lambda: any(json.loads(body)["ck"].get("qry", {}).get("rid") == name for _, _, body in pushed(apple)),
                "the push arrives in the end",
            )
            equal(Vendor.away, [])

        with STEPS.step("a browser reads what its service could not"):
            call("POST", "/admin/1/push-services",
                 {"name": "browsers", "kind": "web", "contact": "mailto:ops@example.org"}, WORLD.operator)  # fmt: skip
            path = f"/device/1/{WORLD.container}/development/tokens/key?ckAPIToken={WORLD.api_token}"
            known = requests.get(WORLD.gateway + path, timeout=30).json()["applicationServerKey"]
            key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bare(known))
            browser, secret = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
            point = browser.public_key().public_bytes(
                serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
            )
            subscribed = {"endpoint": f"{address}/push/tab", "keys": {"p256dh": plain(point), "auth": plain(secret)}}
            tokens("register", {"webPush": subscribed, "clientId": "tab"})
            name = save()
            ((_, headers, body),) = pushed("/push/tab")
            told = json.loads(http_ece.decrypt(body, private_key=browser, auth_secret=secret, version="aes128gcm"))
            equal(told["ck"]["qry"]["rid"], name)
            token, sent = headers["authorization"].removeprefix("vapid t=").split(", k=")
            equal(sent, known)
            _, told = claims(token, key)
            equal((told["aud"], told["sub"]), (address, "mailto:ops@example.org"))
            expect(time.time() < told["exp"] < time.time() + 86400, f"{told}")
            equal((headers["content-encoding"], headers["ttl"]), ("aes128gcm", "86400"))

        with STEPS.step("a device that is gone is forgotten, and others are woken on"):
            Vendor.gone.add(apple)
            save()
            pushed("/push/tab")
            until(lambda: [row["device"] for row in registrations()] == ["tab"], "Apple's device is forgotten")

        with STEPS.step("a device has the user who registered it last"):
            Vendor.gone.clear()
            for token, users in ((WORLD.alice, {"alice": 2}), (WORLD.bob, {"alice": 1, "bob": 1}), (WORLD.alice, {"alice": 2})):
                tokens("register", {"apnsToken": DEVICE.upper(), "clientId": "phone", "everyZone": True}, token)
                equal(Counter(row["user"] for row in registrations()), users)

        with STEPS.step("a device that ends its registration is no longer registered, for its user alone"):
            for place in ({"webPush": subscribed}, {"apnsToken": DEVICE}):
                tokens("unregister", place, WORLD.bob)
            equal(Counter(row["user"] for row in registrations()), {"alice": 2})
            tokens("unregister", {"webPush": subscribed})
            equal([(row["user"], row["device"]) for row in registrations()], [("alice", "phone")])
            save()
            pushed(apple)

        with STEPS.step("no secret is shown"):
            shown = json.dumps(call("GET", "/admin/1/push-services", token=WORLD.operator))
            expect("PRIVATE KEY" not in shown and plain(secret) not in json.dumps(registrations()), shown)
    STEPS.done()


main()
