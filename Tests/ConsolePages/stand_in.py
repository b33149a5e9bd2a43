"""Serves the console's pages with the gateway's headers and session, before answers that a test makes up."""

import http.server
import json
import mimetypes
import pathlib
import secrets
import threading
import time
import urllib.parse

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "Services/ConsolePages"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # A browser opens more connections at a time than the default of five lets wait; it repeats a lost one after seconds.
    request_queue_size = 128


class StandIn:
    """`answer(method, path, query, body)` gives `(status, value)`; bytes and text go out as they are."""

    def __init__(self, answer, sample, token="token", port=0):
        self.answer = answer
        self.sample = sample
        self.token = token
        self.sessions = {}
        self.requests = []
        self.is_up = True
        stand_in = self

        class Handler(RequestHandler):
            owner = stand_in

        self.server = Server(("127.0.0.1", port), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/console/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.is_up = False
        self.server.shutdown()
        self.server.server_close()


class RequestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, BrokenPipeError):
            self.close_connection = True

    def session(self):
        cookies = dict(part.strip().split("=", 1) for part in self.headers.get("Cookie", "").split(";") if "=" in part)
        return self.owner.sessions.get(cookies.get("aquifer-console"))

    def send(self, status, value, content_type="application/json", headers=()):
        data = (
            value
            if isinstance(value, bytes)
            else value.encode()
            if isinstance(value, str)
            else json.dumps(value).encode()
        )
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, text in headers:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, code, reason):
        self.send(status, {"uuid": "6F", "serverErrorCode": code, "reason": reason})

    def serve(self):
        if not self.owner.is_up:
            self.close_connection = True
            self.connection.close()
            return
        address = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urllib.parse.unquote(address.path)
        self.owner.requests.append((self.command, self.path))
        if not path.startswith("/console/"):
            return self.refuse(404, "NOT_FOUND", "There is nothing here")
        path = address.path.removeprefix("/console/")
        if path == "session":
            return self.serve_session(body)
        if not path.startswith("api/"):
            return self.serve_file(path or "index.html")
        session = self.session()
        if not session:
            return self.refuse(401, "AUTHENTICATION_FAILED", "The session has ended")
        if self.command != "GET" and self.headers.get("X-CSRF-Token") != session["csrf"]:
            return self.refuse(403, "ACCESS_DENIED", "X-CSRF-Token is missing")
        if path == "api/live":
            return self.serve_live()
        if path == "api/pings/live":
            return self.serve_stream("ping", self.owner.answer("GET", ["pings"], {}, b"")[1]["pings"])
        query = dict(urllib.parse.parse_qsl(address.query))
        segments = [urllib.parse.unquote(part) for part in path.removeprefix("api/").split("/")]
        status, value = self.owner.answer(self.command, segments, query, body)
        self.send(status, value, "text/plain; charset=utf-8" if isinstance(value, str) else "application/json")

    do_GET = do_POST = do_PUT = do_DELETE = serve

    def serve_file(self, path):
        file = FOLDER / path
        if {"..", "/"} & set(pathlib.PurePosixPath(path).parts) or not file.is_file():
            return self.refuse(404, "NOT_FOUND", f"There is no {path}")
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        self.send(200, file.read_bytes(), kind)

    def serve_session(self, body):
        if self.command == "GET":
            session = self.session()
            return self.send(200, session) if session else self.refuse(401, "AUTHENTICATION_FAILED", "No session")
        if self.command == "DELETE":
            self.owner.sessions.clear()
            return self.send(200, {"ended": True})
        given = json.loads(body or b"{}")
        if given.get("operatorToken") != self.owner.token and given.get("password") != "correct horse":
            return self.refuse(401, "AUTHENTICATION_FAILED", "The token or password is wrong")
        name = given.get("name")
        session = {
            "role": "developer" if name else "operator",
            "name": name or "_operator",
            "csrf": secrets.token_hex(8),
            "containers": [],
            "expires": int(time.time() * 1000) + 8 * 3_600_000,
        }
        key = secrets.token_hex(16)
        self.owner.sessions[key] = session
        self.send(
            200, session, headers=[("Set-Cookie", f"aquifer-console={key}; HttpOnly; SameSite=Strict; Path=/console")]
        )

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def tell(self, name, value):
        self.wfile.write(f"event: {name}\ndata: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def serve_stream(self, name, values):
        self.begin_stream()
        for value in values:
            self.tell(name, value)
        while self.owner.is_up:
            self.wfile.write(b": \n\n")
            self.wfile.flush()
            time.sleep(1)

    def serve_live(self):
        self.begin_stream()
        while self.owner.is_up:
            self.tell("sample", self.owner.sample())
            time.sleep(1)
