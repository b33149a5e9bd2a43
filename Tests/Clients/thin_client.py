"""Clients/python/aquifer.py: retries and errors against a scripted server, then all it can against an installation."""

import gzip
import http.client
import http.server
import io
import itertools
import json
import sys
import threading
import warnings
from pathlib import Path

from steps import Steps, Surroundings, equal, expect, raises

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "Clients" / "python"))

from aquifer import AquiferError, Client, delete, insert, new_id, update  # noqa: E402

WORLD = Surroundings.read()
STEPS = Steps("aquifer.py")
MODEL = ROOT / "deploy" / "sample" / "Sample.xcdatamodeld" / "Sample.xcdatamodel" / "contents"


class Script(http.server.BaseHTTPRequestHandler):
    """Plays the answers of `script` one after the other; None hangs up instead, and a function makes its answer."""

    protocol_version = "HTTP/1.1"
    script, requests = [], []

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append((self.command, self.path, dict(self.headers), body))
        step = self.script.pop(0)
        if callable(step):
            step = step()
        if step is None:
            self.close_connection = True
            return
        status, headers, content = step
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if headers.get("Content-Type") == "text/event-stream":
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


class SlowSocket:
    """Sends 16 KiB in a second of its own time, and like a socket all of one call within its timeout."""

    def __init__(self, timeout, answer):
        self.timeout, self.answer, self.sent = timeout, answer, b""

    def sendall(self, data):
        if len(data) > self.timeout * 16 * 1024:
            raise TimeoutError
        self.sent += data

    def makefile(self, *_):
        return io.BytesIO(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(self.answer), self.answer))

    def close(self):
        pass


def play(*answers):
    Script.script, Script.requests = list(answers), []


def refusal(status, code, **more):
    return status, {}, json.dumps({"serverErrorCode": code, "reason": "why", **more}).encode()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Script)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"
pauses = []
scripted = Client(address, "c", "t", notifier=address)
real_pause = scripted._pause
scripted._pause = lambda attempt, error=None: pauses.append(real_pause(attempt, error)) or 0
done = (200, {}, b'{"transactions":[{"transactionNumber":1}]}')
stream = {"Content-Type": "text/event-stream"}

with STEPS.step("a save is sent again under one identifier until it is answered"):
    play(None, refusal(503, "TRY_AGAIN_LATER", retryAfter=7), (429, {"Retry-After": "9"}, b"busy"), None, done)
    answer = scripted.store("S").save([insert("Tag", "T", name="tide")], transaction_id="once")
    equal(answer["transactions"][0]["transactionNumber"], 1)
    bodies = {body for _, _, _, body in Script.requests}
    names = {headers["X-Request-ID"] for _, _, headers, _ in Script.requests}
    expect(len(Script.requests) >= 5 and len(bodies) == 1 and len(names) == 1, f"{Script.requests}")
    saved = json.loads(bodies.pop())["transactions"][0]
    equal((saved["transactionID"], saved["changes"][0]["attributes"]), ("once", {"name": "tide"}))
    expect(7.0 in pauses and 9.0 in pauses, f"the server's own times are kept: {pauses}")

with STEPS.step("an answer that the server did not write is an outage, whatever its status, and so is a broken one"):
    page, zipped = b"<html>Sign in to this network</html>", {"Content-Encoding": "gzip"}
    pages = [(status, {"Location": "http://portal/"}, page) for status in (200, 302, 401, 403, 404, 407, 413, 421)]
    broken = [(200, zipped, b"no gzip"), (200, zipped, gzip.compress(b"{}")[:-9] + b"\x00" * 9)]
    broken += [(200, zipped, gzip.compress(b"{}")[:10] + b"\xff" * 9), (200, {}, b'{"transac')]
    broken += [(200, {}, b"\xff"), (403, {}, b'{"message":"Forbidden"}'), (403, {}, b"[]")]
    broken += [(200, {}, content) for content in (b"", b"[]", b"null", b'"ok"')] + [(204, {}, b"")]
    play(*pages, *broken, done)
    equal(scripted.store("S").save([], transaction_id="once")["transactions"][0]["transactionNumber"], 1)
    equal((len(Script.requests), len(pages + broken)), (21, 20))
    play((401, {}, page))
    with raises(AquiferError, "NO_ANSWER (401)"):
        Client(address, "c", "t", patience=0).store("S").status()
    play((200, {"Content-Type": "text/html"}, page), (404, {}, page), refusal(404, "NOT_FOUND"))
    with raises(AquiferError, "NOT_FOUND"):
        list(scripted.store("S").events())

with STEPS.step("pauses double, have a jitter and an end"):
    drawn = [[real_pause(attempt) for _ in range(50)] for attempt in (0, 3, 100)]
    expect(all(max(those) <= limit for those, limit in zip(drawn, (1, 8, 300))) and len(set(drawn[1])) > 10, f"{drawn}")

with STEPS.step("a lasting refusal is an error with all that the server said, and is not sent again"):
    play(refusal(413, "QUOTA_EXCEEDED", cocoaErrorCode=134060, uuid="u"))
    try:
        scripted.store("S").status()
        expect(False, "no error")
    except AquiferError as error:
        equal((error.status, error.code, error.reason, error.cocoa_code), (413, "QUOTA_EXCEEDED", "why", 134060))
        equal((error.retry_after, error.is_temporary, error.body["uuid"]), (None, False, "u"))
    equal(len(Script.requests), 1)

with STEPS.step("patience has an end, with the last problem and the server's time"):
    impatient = Client(address, "c", "t", patience=0)
    play(refusal(503, "TRY_AGAIN_LATER", retryAfter=3))
    with raises(AquiferError, "TRY_AGAIN_LATER"):
        impatient.store("S").status()
    play(None, None)
    with raises(AquiferError, "NO_ANSWER"):
        impatient.store("S").status()

with STEPS.step("a content that is in a bucket is fetched from there, without the token"):
    play((302, {"Location": address + "/bucket/content?signature"}, b""), (200, {}, b"dunes"))
    equal(scripted.download({"downloadURL": address + "/asset"}), b"dunes")
    equal([path for _, path, _, _ in Script.requests], ["/asset", "/bucket/content?signature"])
    expect(all("Authorization" not in headers for _, _, headers, _ in Script.requests), f"{Script.requests}")
    play((302, {"Location": address + "/bucket/content?signature"}, b""), (403, {}, b"<Error>expired</Error>"))
    with raises(AquiferError, "403"):
        scripted.download({"downloadURL": address + "/asset"})

with STEPS.step("an upload may take longer than the timeout, and takes bytes alone, which can be sent again"):
    content, given = bytes(range(256)) * 8000, ("ImageData", "data", "P")

    def answer(place):
        return json.dumps({"tokens": [{"url": place + "/up"}], "singleFile": {"receipt": "r"}}).encode()

    slow, line = Client("http://slow", "c", "t", patience=0), http.client.HTTPConnection("slow")
    line.sock = SlowSocket(slow.timeout, answer("http://slow"))
    slow._connect = lambda place, timeout: line
    equal(slow.store("S").upload(content, *given), {"asset": {"receipt": "r"}})
    expect(line.sock.sent.endswith(b"\r\n\r\n" + content), "the content differs")
    good = (200, {}, answer(address))
    play(good, None, good)
    equal(scripted.store("S").upload(bytearray(content), *given), {"asset": {"receipt": "r"}})
    expect([body for _, _, _, body in Script.requests[1:]] == [content] * 2, "a try was not sent whole")
    play(good, good)
    with raises(TypeError, "bytes"):
        scripted.store("S").upload(io.BytesIO(content), *given)

NEXT = "X-Apple-CloudKit-Web-Auth-Token"

with STEPS.step("a session's next token takes the place of the last one, for retries and streams as well"):
    kept = []
    rotating = Client(address, "c", "t", notifier=address, on_token=kept.append)
    rotating._pause = lambda attempt, error=None: 0

    def late():
        # Another thread's call is answered first, and both were sent with the same token.
        rotating.store("S").status()
        return 200, {NEXT: "late"}, b"{}"

    play(
        late, (200, {NEXT: "t2"}, b"{}"), (503, {NEXT: "t3"}, b""), done,
        (200, {**stream, NEXT: "t4"}, b": hello\n\n"), refusal(404, "NOT_FOUND"),
    )  # fmt: skip
    rotating.store("S").status()
    rotating.store("S").status()
    with raises(AquiferError, "NOT_FOUND"):
        list(rotating.pings())
    sent = [headers["Authorization"].split()[1] for _, _, headers, _ in Script.requests]
    equal((sent, kept), (["t", "t", "t2", "t3", "t3", "t4"], ["t2", "t3", "t4"]))
    # An asset's address carries no token, and its answer brings none.
    play((200, {NEXT: "bucket"}, b"dunes"), done)
    rotating.download({"downloadURL": address + "/asset"})
    rotating.store("S").status()
    equal(Script.requests[1][2]["Authorization"], "Bearer t4")

with STEPS.step("a next token that can't be kept is not used, and the answer that brought it is told all the same"):
    asked = []

    def keep(token):
        asked.append(token)
        if len(asked) == 1:
            raise OSError("the disk is full")

    keeping = Client(address, "c", "t", on_token=keep)
    play((200, {NEXT: "t2"}, b'{"saved":1}'), (200, {NEXT: "t2"}, b"{}"), done)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        equal(keeping.store("S").save([]), {"saved": 1})
    expect("could not keep" in str(warned[0].message) and len(warned) == 1, f"{warned}")
    keeping.store("S").status()
    keeping.store("S").status()
    sent = [headers["Authorization"].split()[1] for _, _, headers, _ in Script.requests]
    equal((sent, asked), (["t", "t", "t2"], ["t2", "t2"]))

with STEPS.step("a broken event ends its connection, and the stream goes on after the last whole one"):
    play(
        (200, stream, b': hello\n\nid: 4\ndata: {"a":1}\n\nid: 5\ndata: {"a"\n\n'),
        (200, stream, b"data: \xff\n\n"),
        (200, stream, b'data: {"a":2}\n\n'),
        refusal(404, "NOT_FOUND"),
    )
    told = []
    with raises(AquiferError, "NOT_FOUND"):
        for event in scripted.store("S").events(after="3"):
            told.append(event)
    equal([event for event in told if event], [{"a": 1}, {"a": 2}])
    equal([headers["Last-Event-ID"] for _, _, headers, _ in Script.requests], ["3", "4", "4", "4"])

with STEPS.step("a ping is told whatever subscription it comes from, and one of no known form says to import"):
    places = [("met", 1), ("fet", 0), ("qry", 2)]
    events = [{"ck": {kind: {"zid": kind, "zoid": "_a", "dbs": number}}} for kind, number in places]
    odd = [{"ck": {"nid": "n"}}, {}, [], 7, None, {"ck": {"met": {"zid": "z"}}}]
    odd += [{"ck": {"met": {"zid": "z", "zoid": "_a", "dbs": number}}} for number in (9, -1, "1")]
    play(
        (200, stream, "".join(f"data: {json.dumps(event)}\n\n" for event in events + odd).encode()),
        refusal(404, "NOT_FOUND"),
    )
    told = []
    with raises(AquiferError, "NOT_FOUND"):
        for ping in scripted.pings():
            told.append(ping and (ping["zoneName"], ping["ownerRecordName"], ping["scope"]))
    equal(told, [None, ("met", "_a", "private"), ("fet", "_a", "public"), ("qry", "_a", "shared")] + [None] * len(odd))

with STEPS.step("pauses between streams begin anew after one that lived"):
    attempts = []
    client = Client(address, "c", "t", notifier=address)
    client._pause = lambda attempt, error=None: attempts.append(attempt) or 0
    quiet, living = (200, stream, b""), (200, stream, b": hello\n\n")
    play(None, (503, {}, b""), quiet, living, quiet, quiet, refusal(404, "NOT_FOUND"))
    with raises(AquiferError, "NOT_FOUND"):
        list(client.pings())
    equal(attempts, [0, 1, 2, 0, 1, 2])

with STEPS.step("an idle connection that the server has closed costs no pause"):
    play(done, None, done)
    impatient.store("S").status()
    impatient.store("S").status()

with STEPS.step("a stream goes on after its last event, and says when it is connected"):
    play(
        (200, stream, b': hello\n\nid: 4\ndata: {"a":1}\n\nid: 5\ndata: {"a":\ndata: 2}\n\ndata: {"cut'),
        (503, {}, b""),
        (200, stream, b'data: {"a":3}\n\n'),
        refusal(404, "NOT_FOUND"),
    )
    told = []
    with raises(AquiferError, "NOT_FOUND"):
        for event in scripted.store("S").events(after="3"):
            told.append(event)
    equal(told, [None, {"a": 1}, {"a": 2}, None, {"a": 3}])
    equal([headers.get("Last-Event-ID") for _, _, headers, _ in Script.requests], ["3", "5", "5", "5"])
server.shutdown()

# The installation

operator = Client(WORLD.gateway, WORLD.container, WORLD.operator, ca=WORLD.authority)
model = operator.call("PUT", f"/mirror/1/{WORLD.container}/development/model", MODEL.read_bytes())["modelHash"]
alice = Client(WORLD.gateway, WORLD.container, WORLD.alice, notifier=WORLD.notifier, ca=WORLD.authority)
bob = Client(WORLD.gateway, WORLD.container, WORLD.bob, notifier=WORLD.notifier, ca=WORLD.authority)
phone, laptop = alice.store(new_id()), alice.store(new_id())
tag, photo = new_id(), new_id()

with STEPS.step("a device sets up its store, and saves once however often it sends"):
    equal(phone.set_up(model, device="Phone")["storeIdentifier"], phone.identifier)
    laptop.set_up(model)
    first = phone.save([insert("Tag", tag, name="tide")], transaction_id="T-1", wait=True)
    equal(first["event"]["counts"], {"saved": 1, "deleted": 0})
    equal(phone.save([insert("Tag", tag, name="tide")], transaction_id="T-1")["transactions"], first["transactions"])

with STEPS.step("another device imports pages to the end, and goes on from its token"):
    phone.save([insert("Tag", new_id(), name=f"{number}") for number in range(30)], wait=True)
    pages = list(laptop.changes(limit=10))
    equal(len({change["objectID"] for page in pages for change in page["changes"]}), 31)
    expect(len(pages) > 3 and not pages[-1]["moreComing"], f"{len(pages)} pages")
    phone.save([update("Tag", tag, name="ebb")], after=pages[-1]["importToken"], wait=True)
    changed = [change for page in laptop.changes(pages[-1]["importToken"]) for change in page["changes"]]
    equal([(change["objectID"], change["attributes"]["name"]) for change in changed], [(tag, "ebb")])

with STEPS.step("a token of another database is refused with status 410"):
    other = bob.store(new_id())
    other.set_up(model)
    try:
        list(other.changes(pages[-1]["importToken"]))
        expect(False, "no error")
    except AquiferError as error:
        equal((error.status, error.is_temporary), (410, False))

with STEPS.step("a large value is uploaded, imported as a link, and downloaded"):
    content = bytes(range(256)) * 8000
    phone.save([insert("ImageData", photo, data=phone.upload(content, "ImageData", "data", photo))], wait=True)
    linked = {change["objectID"]: change for page in laptop.changes(assets="links") for change in page["changes"]}
    value = linked[photo]["attributes"]["data"]
    equal(value["asset"]["size"], len(content))
    expect(alice.download(value) == content, "the content differs")
    equal(laptop.object(photo)["syncState"], "clean")

with STEPS.step("a refusal names its place, and stores nothing"):
    with raises(AquiferError, "BAD_REQUEST", "Tag.nam: the model has no such attribute"):
        phone.save([delete("Tag", tag), insert("Tag", new_id(), nam="x")])
    equal(laptop.object(tag)["attributes"]["name"], "ebb")

with STEPS.step("a ping says that a zone changed, and events tell of exports"):
    pings = alice.pings(laptop, alice.store(new_id(), "shared"))
    equal(next(pings), None)
    # A query subscription's notifications come by the same stream.
    notice = {"query": {"recordType": "CD_Tag"}, "zoneWide": True, "firesOn": ["create", "update"]}
    notice |= {"subscriptionID": "tags", "subscriptionType": "query", "notificationInfo": {"alertBody": "A tag"}}
    operation = {"operationType": "create", "subscription": notice}
    scope = f"/database/1/{WORLD.container}/development/private"
    made = alice.call("POST", f"{scope}/subscriptions/modify", {"operations": [operation]})
    equal(made["subscriptions"][0].get("subscriptionID"), "tags", f"{made}")
    phone.save([update("Tag", tag, name="flow")])
    for ping in itertools.islice(pings, 2):
        equal((ping["zoneName"], ping["scope"]), ("com.apple.coredata.cloudkit.zone", "private"))
    pings.close()
    kinds = (event["type"] for event in phone.events() if event and event["endDate"])
    equal([kind for kind in itertools.islice(kinds, 3)][0], "setup")
    phone_status = phone.status()
    expect("pendingUploads" in phone_status, f"{phone_status}")

with STEPS.step("an object graph is shared, accepted and imported by somebody else"):
    shared = phone.share([tag], title="Tides", publicPermission="READ_WRITE")
    guest = bob.store(new_id(), "shared")
    guest.set_up(model)
    results = guest.accept(shared["share"]["shortGUID"])
    equal(results[0]["participantStatus"], "ACCEPTED")
    objects = {
        change["objectID"]: change for page in guest.changes() for change in page["changes"] if "entity" in change
    }
    equal(objects[tag]["attributes"]["name"], "flow")

STEPS.done()
