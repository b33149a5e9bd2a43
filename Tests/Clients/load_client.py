"""Clients/python/load.py against an installation: it measures, and finds a loss planted on the way to the server."""

import http.client
import http.server
import json
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


class Thief(http.server.BaseHTTPRequestHandler):
    """Hands requests on to the gateway, but acknowledges every 20th save by itself."""

    protocol_version = "HTTP/1.1"
    saves, stolen, lock = 0, 0, threading.Lock()

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/transactions") and self.is_stolen():
            name = json.loads(body)["transactions"][0]["transactionID"]
            return self.answer(
                200, json.dumps({"transactions": [{"transactionID": name, "transactionNumber": 9}]}).encode(), []
            )
        connection = http.client.HTTPConnection(GATEWAY, timeout=60)
        connection.request(self.command, self.path, body, dict(self.headers))
        response = connection.getresponse()
        kept = [(name, value) for name, value in response.getheaders() if name in ("Content-Type", "Content-Encoding")]
        self.answer(response.status, response.read(), kept)
        connection.close()

    @classmethod
    def is_stolen(cls):
        with cls.lock:
            cls.saves += 1
            cls.stolen += cls.saves % 20 == 0
            return cls.saves % 20 == 0

    def answer(self, status, content, headers):
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(content)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = pass_on

    def log_message(self, *_):
        pass


def run(*arguments):
    command = [sys.executable, "-B", SCRIPT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


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

with STEPS.step("a planted loss is exit code 1, and the lost objects are named"):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Thief)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    done = run("--url", f"http://127.0.0.1:{server.server_port}", *SMALL)
    equal(done.returncode, 1, done.stdout + done.stderr)
    expect(Thief.stolen == 6 and f"{done.stdout.count('  lost: ')} lost objects" in done.stdout, done.stdout)
    expect(" 0 lost" not in done.stdout, done.stdout)
    server.shutdown()

with STEPS.step("without a server, or without the right to make users, nothing is measured: exit code 3"):
    equal(run("--url", WORLD.gateway, *SMALL, "--operator-token", "wrong").returncode, 3)

STEPS.done()
