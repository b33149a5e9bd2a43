"""Clients/python/load.py against an installation: it measures, and finds a loss planted on the way to the server."""

import contextlib
import http.client
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

from steps import Steps, Surroundings, equal, expect

WORLD = Surroundings.read()
STEPS = Steps("load.py")
SCRIPT = Path(__file__).parent.parent.parent / "Clients" / "python" / "load.py"
GATEWAY = urlsplit(WORLD.gateway).netloc


class Way(http.server.BaseHTTPRequestHandler):
    """Hands requests on to the gateway. Subclasses answer some by themselves."""

    protocol_version = "HTTP/1.1"

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers, content = self.own_answer(body) or self.asked(body)
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(content)))]:
            self.send_header(name, value)
        with contextlib.suppress(ConnectionError):  # The asker may have been killed.
            self.end_headers()
            self.wfile.write(content)

    def own_answer(self, body):
        """None: the gateway's answer is handed back."""

    def asked(self, body, path=None, method=None):
        connection = http.client.HTTPConnection(GATEWAY, timeout=60)
        connection.request(method or self.command, path or self.path, body, dict(self.headers))
        response = connection.getresponse()
        kept = [(name, value) for name, value in response.getheaders() if name in ("Content-Type", "Content-Encoding")]
        content = response.read()
        connection.close()
        return response.status, kept, content

    @staticmethod
    def acknowledgement(body):
        name = json.loads(body)["transactions"][0]["transactionID"]
        saved = {"transactions": [{"transactionID": name, "transactionNumber": 9}]}
        return 200, [], json.dumps(saved).encode()

    do_GET = do_POST = do_PUT = do_DELETE = handle_request

    def log_message(self, *_):
        pass


class Thief(Way):
    """Acknowledges every 20th save by itself."""

    saves, stolen, deletions, lock = 0, 0, 0, threading.Lock()

    def own_answer(self, body):
        with self.lock:
            type(self).deletions += self.command == "DELETE"
            if not self.path.endswith("/transactions"):
                return None
            type(self).saves += 1
            if self.saves % 20:
                return None
            type(self).stolen += 1
        return self.acknowledgement(body)


class Refuser(Thief):
    """A thief who refuses one import as well."""

    saves, stolen, deletions, lock, refused = 0, 0, 0, threading.Lock(), 0

    def own_answer(self, body):
        if "/changes" in self.path:
            with self.lock:
                type(self).refused += 1
                if self.refused == 1:
                    return 403, [], b'{"serverErrorCode":"ACCESS_DENIED","reason":"not today"}'
        return super().own_answer(body)


class Guard(Way):
    """Lets nobody delete a user."""

    def own_answer(self, body):
        return (403, [], b'{"serverErrorCode":"ACCESS_DENIED","reason":"kept"}') if self.command == "DELETE" else None


class Dawdler(Way):
    """Acknowledges every 20th save by itself, and hands it on when its store's status was asked for the second time."""

    waiting, lock, looks = {}, threading.Lock(), 2

    def own_answer(self, body):
        store = self.path.split("/transactions")[0].split("/status")[0]
        with self.lock:
            if self.path.endswith("/transactions"):
                kept = self.waiting.setdefault(store, {"saves": [], "count": 0, "looks": 0})
                kept["count"] += 1
                if kept["count"] % 20:
                    return None
                kept["saves"].append(body)
                return self.acknowledgement(body)
            if not self.path.endswith("/status") or not self.waiting.get(store, {}).get("saves"):
                return None
            kept = self.waiting[store]
            kept["looks"] += 1
            if kept["looks"] < self.looks:
                return 200, [], json.dumps({"pendingUploads": len(kept["saves"])}).encode()
            saves, kept["saves"] = kept["saves"], []
        for save in saves:
            self.asked(save, store + "/transactions?wait=export", "POST")
        return None


class Sluggard(Dawdler):
    """Never hands a save on."""

    waiting, lock, looks = {}, threading.Lock(), 1 << 30


class Killer(Way):
    """Kills a process of the load at the first request whose path has its word."""

    word, load, lock = "", None, threading.Lock()

    def own_answer(self, body):
        with self.lock:
            if self.load and self.word in self.path:
                children = Path(f"/proc/{self.load.pid}/task/{self.load.pid}/children").read_text().split()
                type(self).load = None
                os.kill(int(children[-1]), signal.SIGKILL)


class Orphaner(Way):
    """Kills the load itself, without its processes, at the first request for a store."""

    load, lock = None, threading.Lock()

    def own_answer(self, body):
        with self.lock:
            if self.load and "/stores/" in self.path:
                os.kill(self.load.pid, signal.SIGKILL)
                type(self).load = None


@contextlib.contextmanager
def serving(way):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), way)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def run(*arguments, started=lambda load: None):
    command = [sys.executable, "-B", SCRIPT, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as load:
        started(load)
        output, problems = load.communicate(timeout=90)
    return subprocess.CompletedProcess(command, load.returncode, output, problems)


SMALL = [
    "--operator-token",
    WORLD.operator,
    "--users",
    "4",
    "--devices",
    "2",
    "--saves-per-second",
    "60",
    "--duration",
    "2",
]

with STEPS.step("the help explains figures and exit codes, and wrong arguments are exit code 2"):
    told = run("--help")
    equal(told.returncode, 0)
    for part in ("open loop", "exit codes", "p99", "examples:"):
        expect(part in told.stdout, told.stdout)
    for wrong in (["--users", "0"], ["--saves-per-second", "0"], ["--users", "x"]):
        equal(run("--url", WORLD.gateway, "--operator-token", "t", *wrong).returncode, 2)

with STEPS.step("every acknowledged save is found by a fresh device, from two processes"):
    done = run("--url", WORLD.gateway, *SMALL, "--processes", "2")
    equal(done.returncode, 0, done.stdout + done.stderr)
    for part in ("120 acknowledged", "not answered  0", "p99", "ms", "120 acknowledged saves, 0 lost"):
        expect(part in done.stdout, done.stdout)

with STEPS.step("a planted loss is exit code 1, the lost objects are named, and the users stay as evidence"):
    with serving(Thief) as url:
        done = run("--url", url, *SMALL)
    equal(done.returncode, 1, done.stdout + done.stderr)
    expect(Thief.stolen == 6 and f"{done.stdout.count('  lost: ')} lost objects" in done.stdout, done.stdout)
    expect(" 0 lost" not in done.stdout and Thief.deletions == 0, done.stdout)

with STEPS.step("a loss is told although another user's import was refused"):
    with serving(Refuser) as url:
        done = run("--url", url, *SMALL)
    equal(done.returncode, 1, done.stdout + done.stderr)
    expect("  lost: " in done.stdout and "not today" in done.stderr, done.stdout + done.stderr)

with STEPS.step("users that can't be deleted change no figures, and are told of"):
    with serving(Guard) as url:
        done = run("--url", url, *SMALL)
    equal(done.returncode, 0, done.stdout + done.stderr)
    expect("120 acknowledged saves, 0 lost" in done.stdout and "kept" in done.stderr, done.stdout + done.stderr)

with STEPS.step("a save that becomes a record late is no loss, and one that does not in time is not judged"):
    with serving(Dawdler) as url:
        done = run("--url", url, *SMALL, "--users", "1")
    equal(done.returncode, 0, done.stdout + done.stderr)
    with serving(Sluggard) as url:
        done = run("--url", url, *SMALL, "--users", "1", "--patience", "1")
    equal(done.returncode, 3, done.stdout + done.stderr)
    expect(" lost: " not in done.stdout and "not exported" in done.stdout, done.stdout + done.stderr)

with STEPS.step("a process of the load that is killed ends the run, amid the saves and before them"):
    for Killer.word in ("/transactions", "/stores/"):
        with serving(Killer) as url:
            done = run("--url", url, *SMALL, "--processes", "2", started=lambda load: setattr(Killer, "load", load))
        equal(done.returncode, 3, done.stdout + done.stderr)
        expect("ended" in done.stderr, done.stderr)

with STEPS.step("the processes of a load that is killed itself end, too"):
    with serving(Orphaner) as url:
        # Its output ends with the last process.
        done = run("--url", url, *SMALL, "--processes", "2", started=lambda load: setattr(Orphaner, "load", load))
    equal(done.returncode, -signal.SIGKILL, done.stdout + done.stderr)

with STEPS.step("without a server, or without the right to make users, nothing is measured: exit code 3"):
    equal(run("--url", WORLD.gateway, *SMALL, "--operator-token", "wrong").returncode, 3)

STEPS.done()
