"""Clients/web/aquifer.js: its types, then all it can in headless Chromium, on a page from another origin."""

import http.server
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from steps import Steps, Surroundings, equal, expect
from webdriver import BrowserError, browser, until

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "Clients" / "python"))

from aquifer import Client, insert, new_id  # noqa: E402

WORLD = Surroundings.read()
STEPS = Steps("aquifer.js")
SCRIPT = ROOT / "Clients" / "web" / "aquifer.js"
MODEL = ROOT / "deploy" / "sample" / "Sample.xcdatamodeld" / "Sample.xcdatamodel" / "contents"
PASSWORD = "correct horse battery staple"
PAGE = b"""<!doctype html><meta charset="utf-8"><button id="signin">Sign in</button><script type="module">
import * as aquifer from "/aquifer.js";
window.aquifer = aquifer;
window.told = [];
document.getElementById("signin").onclick = async () => {
  try { await app.signIn(window.redirectURL); told.push("signed in"); } catch (error) { told.push(String(error)); }
};
</script>"""


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves the page and the module."""

    def do_GET(self):
        is_script = self.path == "/aquifer.js"
        content = SCRIPT.read_bytes() if is_script else PAGE
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if is_script else "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def refused(page, script, *parts):
    try:
        page.run(script)
    except BrowserError as error:
        for part in parts:
            expect(part in str(error), str(error))
        return
    raise AssertionError(f"{script}: no error")


with STEPS.step("its types hold"):
    compiler = shutil.which("tsc")
    expect(compiler, "tsc is missing: deploy/install test")
    options = ["--checkJs", "--allowJs", "--noEmit", "--strict", "--target", "es2022", "--module", "es2022"]
    checked = subprocess.run(
        [compiler, *options, "--lib", "es2022,dom,dom.iterable", SCRIPT], capture_output=True, text=True, check=False
    )
    equal(checked.returncode, 0, checked.stdout)

operator = Client(WORLD.gateway, WORLD.container, WORLD.operator)
model = operator.call("PUT", f"/mirror/1/{WORLD.container}/development/model", MODEL.read_bytes())["modelHash"]
operator.call("POST", "/admin/1/users", {"name": "carol", "password": PASSWORD})
bob = Client(WORLD.gateway, WORLD.container, WORLD.bob)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
threading.Thread(target=server.serve_forever, daemon=True).start()

with browser() as page:
    page.open(f"http://127.0.0.1:{server.server_port}/")
    until(lambda: page.run("return Boolean(window.aquifer)"), "the module is loaded")

    with STEPS.step("a user signs in through the window that the page opens"):
        settings = {"url": WORLD.gateway, "notifier": WORLD.notifier, "container": WORLD.container}
        settings["apiToken"] = WORLD.api_token
        page.run(
            "window.app = new aquifer.Client({...given[0], onToken: token => { window.kept = token }});"
            "window.model = given[1];"
            "window.phone = app.store(aquifer.newID()); window.laptop = app.store(aquifer.newID());"
            "try { await phone.setUp(model) } catch (error) { window.redirectURL = error.redirectURL }",
            settings, model)  # fmt: skip
        own = page.window
        page.click("#signin")
        page.window = until(
            lambda: next((handle for handle in page.windows if handle != own), None), "the sign-in window opens"
        )
        page.type("#name", "carol")
        page.type("#password", PASSWORD)
        page.click("#submit")
        page.window = own
        until(lambda: page.run("return told.includes('signed in')"), "the page has its token")
        equal(page.run("return window.kept === app.webAuthToken && kept.startsWith('ses_')"), True)

    with STEPS.step("a sign-in ends with an error when its window is kept shut or closed, and with a token that came"):
        ended = page.run("""
            const [open, {origin}] = [window.open, new URL(redirectURL)];
            const other = new aquifer.Client(given[0]);
            const signIn = (sheet) => {
                window.open = () => sheet;
                return other.signIn(redirectURL).then(() => other.webAuthToken, (error) => error.message);
            };
            const shut = await signIn(null);
            const closed = await signIn({closed: true});
            const sheet = Object.assign(new MessageChannel().port1, {closed: true});
            const sent = signIn(sheet);
            const data = {ckWebAuthToken: "token"};
            window.dispatchEvent(new MessageEvent("message", {source: sheet, origin, data}));
            window.open = open;
            return [shut, closed, await sent];""", settings)  # fmt: skip
        kept = [f"AUTHENTICATION_FAILED (421): The sign-in window was {what}" for what in ("kept shut", "closed")]
        equal(ended, [*kept, "token"])

    with STEPS.step("a next token that can't be kept is not used, and the answer with it is told all the same"):
        told = page.run("""
            const real = window.fetch, asked = [];
            const onToken = (token) => {
                asked.push(token);
                if (asked.length === 1) throw new Error("storage is full");
            };
            const other = new aquifer.Client({...given[0], onToken});
            const headers = {"X-Apple-CloudKit-Web-Auth-Token": "t2"};
            window.fetch = async () => new Response('{"saved":1}', {headers});
            const answers = [await other.call("POST", "/a"), other.webAuthToken ?? "none"];
            answers.push(await other.call("POST", "/a"), other.webAuthToken, asked);
            window.fetch = real;
            return answers;""", settings)  # fmt: skip
        equal(told, [{"saved": 1}, "none", {"saved": 1}, "t2", ["t2", "t2"]])

    with STEPS.step("an answer renews only the token that it was sent with, and does so once"):
        told = page.run("""
            const [real, kept, ends] = [window.fetch, [], []];
            const onToken = (token) => kept.push(token);
            const other = new aquifer.Client({...given[0], webAuthToken: "ann", onToken});
            window.fetch = () => new Promise((resolve) => ends.push(resolve));
            const call = () => {
                const answer = other.call("GET", "/a"), end = ends.shift();
                return (token) => {
                    end(new Response("{}", {headers: {"X-Apple-CloudKit-Web-Auth-Token": token}}));
                    return answer;
                };
            };
            const [first, second] = [call(), call()];
            await first("ann2");
            await second("ann2");
            const poll = call();
            other.webAuthToken = "bob";
            await poll("ann3");
            window.fetch = real;
            return [other.webAuthToken, kept];""", settings)  # fmt: skip
        equal(told, ["bob", ["ann2"]])

    with STEPS.step("a call that loses its answer is not sent again when another user has signed in"):
        told = page.run("""
            const [open, real, {origin}] = [window.open, window.fetch, new URL(redirectURL)];
            const other = new aquifer.Client({...given[0], webAuthToken: "ann"});
            const source = Object.assign(new MessageChannel().port1, {closed: true});
            const data = {ckWebAuthToken: "bob"};
            let sent = 0;
            other.pause = () => 0;
            window.open = () => source;
            window.fetch = async () => {
                if (sent++) return new Response("{}");
                const signedIn = other.signIn(redirectURL);
                window.dispatchEvent(new MessageEvent("message", {source, origin, data}));
                await signedIn;
                throw new TypeError("lost");
            };
            const code = await other.call("POST", "/a").catch((error) => error.code);
            [window.open, window.fetch] = [open, real];
            return [sent, code, other.webAuthToken];""", settings)  # fmt: skip
        equal(told, [1, "NO_ANSWER", "bob"])

    with STEPS.step("a save whose answers are lost is sent again, and stored once"):
        saved = page.run("""
            await phone.setUp(model, {device: {name: "Phone"}}); await laptop.setUp(model);
            const real = window.fetch, sent = [];
            let lost = 2;
            app.pause = () => 0;
            window.fetch = async (url, init) => {
                const answer = await real(url, init);
                sent.push([init.body, init.headers["X-Request-ID"]].join());
                if (lost-- > 0) throw new TypeError("lost");
                return answer;
            };
            window.tag = aquifer.newID();
            const answer = await phone.save([aquifer.insert("Tag", tag, {name: "tide"})], {wait: true});
            window.fetch = real;
            delete app.pause;
            return [sent.length, new Set(sent).size, answer.transactions[0].transactionNumber];""")
        equal(saved, [3, 1, 1])

    with STEPS.step("an answer that is not the server's is an outage, and so is one that is cut or falls silent"):
        sent = page.run("""
            const [real, wait] = [window.fetch, window.setTimeout];
            app.pause = () => 0;
            // The silent answer need not take its full time; the server's may take all of it.
            let isShort = true;
            window.setTimeout = (act, pause) => wait(act, isShort ? Math.min(pause, 50) : pause);
            const part = new TextEncoder().encode('{"stor');
            const body = (start) => new Response(new ReadableStream({start}));
            const answers = [200, 401, 403, 404, 407, 413].map(status => () => new Response("<html>", {status}));
            answers.push(() => new Response("null", {status: 403}));
            answers.push(() => body(pieces => { pieces.enqueue(part); pieces.error(new TypeError("cut")) }));
            answers.push(signal => body(pieces => {
                pieces.enqueue(part);
                // The server's own answer, which is the next one, may take its time.
                signal.addEventListener("abort", () => { isShort = false; pieces.error(new Error("silent")) });
            }));
            let sent = 0;
            window.fetch = async (url, init) => (sent++, answers.length ? answers.shift()(init.signal) : real(url, init));
            const status = await phone.call("GET", "/status");
            [window.fetch, window.setTimeout] = [real, wait];
            delete app.pause;
            return [sent, typeof status];""")
        equal(sent, [10, "object"])

    with STEPS.step("an upload has the time that its sending takes at the slowest"):
        tries = page.run("""
            const [real, wait, other] = [window.fetch, window.setTimeout, new aquifer.Client(given[0])];
            other.pause = () => 0;
            // The upload takes 80 seconds: a shorter limit ends its first try at once, and a longer one never does.
            let isShort;
            window.setTimeout = (act, pause) => (isShort = pause < 80_000) ? wait(act, 0) : 0;
            const tries = [];
            for (const content of [new Uint8Array(1_000_000), new Blob(["x".repeat(1_000_000)]), "short"]) {
                let count = 0;
                window.fetch = (url, {signal}) => new Promise((resolve, reject) => {
                    signal.addEventListener("abort", () => reject(signal.reason));
                    if (url === "/up" && count++ === 0 && isShort) return;
                    resolve(new Response('{"tokens": [{"url": "/up"}], "singleFile": {}}'));
                });
                await other.store("S").upload(content, "ImageData", "data", "P");
                tries.push(count);
            }
            [window.fetch, window.setTimeout] = [real, wait];
            return tries;""", settings)  # fmt: skip
        equal(tries, [1, 1, 2])

    with STEPS.step("another device imports pages to the end, and goes on from its token"):
        counts = page.run("""
            const more = () => phone.save([aquifer.insert("Tag", aquifer.newID(), {name: "more"})], {wait: true});
            for (let i = 0; i < 5; i++) await more();
            let pages = 0, names = new Set();
            for await (const page of laptop.changes(undefined, {limit: 2})) {
                pages++;
                for (const change of page.changes) names.add(change.objectID);
                window.token = page.importToken;
            }
            await phone.save([aquifer.update("Tag", tag, {name: "ebb"})], {wait: true});
            const next = [];
            for await (const {changes} of laptop.changes(token)) next.push(...changes.map(it => it.attributes.name));
            return [pages >= 3, names.size, next];""")
        equal(counts, [True, 6, ["ebb"]])

    with STEPS.step("refusals are errors with a code and a place"):
        wrong = "await phone.save([aquifer.insert('Tag', aquifer.newID(), {nam: 1})])"
        refused(page, wrong, "BAD_REQUEST (400)", "Tag.nam")
        refused(page, "for await (const page of laptop.changes('nonsense')) {}", "(4")
        busy = "const error = new aquifer.AquiferError(503, {retryAfter: 7});"
        equal(page.run(busy + "return [error.isTemporary, app.pause(0, error)]"), [True, 7000])

    with STEPS.step("a ping is told whatever subscription it comes from, and one of no known form says to import"):
        places = [("met", 1), ("fet", 0), ("qry", 2)]
        events = [{"ck": {kind: {"zid": kind, "zoid": "_a", "dbs": number}}} for kind, number in places]
        odd = [{"ck": {"nid": "n"}}, {}, [], 7, None, {"ck": {"met": {"zid": "z"}}}]
        odd += [{"ck": {"met": {"zid": "z", "zoid": "_a", "dbs": number}}} for number in (9, -1)]
        told = page.run("""
            const [real, told] = [window.EventSource, []];
            let source;
            window.EventSource = class { constructor() { source = this } close() {} };
            app.pings([laptop], ping => told.push(ping && [ping.zoneName, ping.ownerRecordName, ping.scope].join()));
            for (const event of given[0]) source.onmessage({data: JSON.stringify(event)});
            window.EventSource = real;
            return told""", events + odd)  # fmt: skip
        equal(told, ["met,_a,private", "fet,_a,public", "qry,_a,shared"] + [None] * len(odd))

    with STEPS.step("pauses between streams begin anew after one that was open"):
        attempts = page.run("""
            const [real, wait, attempts] = [window.EventSource, window.setTimeout, []];
            let source;
            window.EventSource = class { constructor() { source = this } close() {} };
            window.setTimeout = (act) => act();
            app.pause = (attempt) => attempts.push(attempt);
            app.pings([laptop], () => {});
            for (const does of ["onerror", "onerror", "onerror", "onopen", "onerror", "onerror"]) source[does]();
            [window.EventSource, window.setTimeout] = [real, wait];
            delete app.pause;
            return attempts""")
        equal(attempts, [0, 1, 2, 0, 1])

    with STEPS.step("a stream of events goes on after the last number that the server sent"):
        asked = page.run("""
            const [real, wait, asked] = [window.EventSource, window.setTimeout, []];
            let source;
            window.EventSource = class {
                constructor(url) { source = this; asked.push(new URL(url).searchParams.get("after")); }
                close() {}
            };
            window.setTimeout = (act) => act();
            phone.events(() => {});
            for (const lastEventId of ["", "7", ""]) {
                source.onmessage({data: '{"identifier": "E", "endDate": "2026-11-20T07:33:25.000Z"}', lastEventId});
                source.onerror();
            }
            [window.EventSource, window.setTimeout] = [real, wait];
            return asked""")
        equal(asked, [None, None, "7", "7"])

    with STEPS.step("one stream of pings serves two stores, and events tell of exports"):
        page.run("""
            window.pings = []; window.events = [];
            window.ends = [
                app.pings([laptop, app.store("other", "shared")], ping => pings.push(ping)),
                phone.events(event => events.push(event))];""")
        begun = "return pings.length && events.some(event => event?.type === 'setup')"
        until(lambda: page.run(begun), "both are connected")
        page.run("await laptop.save([aquifer.insert('Tag', aquifer.newID(), {name: 'own'})], {wait: true})")
        page.run("await phone.save([aquifer.update('Tag', tag, {name: 'flow'})], {wait: true})")
        heard = "return pings.length > 1 && events.some(event => event?.type === 'export' && event.endDate)"
        until(lambda: page.run(heard), "both tell")
        told = page.run("ends.forEach(end => end()); return pings.map(it => it && it.zoneName + ' ' + it.scope)")
        equal(told, [None, "com.apple.coredata.cloudkit.zone private"])

    with STEPS.step("a large value is uploaded, imported as a link, and downloaded"):
        same = page.run("""
            const bytes = new Uint8Array(2_000_000).map((_, place) => place * 7);
            const photo = aquifer.newID();
            const data = await phone.upload(bytes, "ImageData", "data", photo);
            await phone.save([aquifer.insert("ImageData", photo, {data})], {wait: true});
            for await (const page of laptop.changes(undefined, {assets: "links"})) {
                const found = page.changes.find(change => change.objectID === photo);
                if (!found) continue;
                const content = new Uint8Array(await app.download(found.attributes.data));
                return [content.length, content.every((byte, place) => byte === bytes[place])];
            }""")
        equal(same, [2_000_000, True])

    with STEPS.step("an object graph is shared by one user, and joined by another"):
        shared = page.run("return await phone.share([tag], {title: 'Tides', publicPermission: 'READ_WRITE'})")
        guest = bob.store(new_id(), "shared")
        guest.set_up(model)
        equal(guest.accept(shared["share"]["shortGUID"])[0]["participantStatus"], "ACCEPTED")
        mine, own = bob.store(new_id()), new_id()
        mine.set_up(model)
        mine.save([insert("Tag", own, name="bob's")], wait=True)
        offered = mine.share([own], publicPermission="READ_ONLY")
        joined = page.run(
            "const guest = app.store(aquifer.newID(), 'shared'); await guest.setUp(model);"
            "const results = await guest.accept(given[0]); const names = [];"
            "for await (const {changes} of guest.changes()) names.push(...changes.map(it => it.attributes?.name));"
            "return [results[0].participantStatus, names.includes(\"bob's\")]",
            offered["share"]["shortGUID"])  # fmt: skip
        equal(joined, ["ACCEPTED", True])

STEPS.done()
