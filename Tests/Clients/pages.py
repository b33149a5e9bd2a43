"""A web server whose every page is page.html: an app's page of another origin."""

import http.server
import threading
from pathlib import Path


class Pages(http.server.BaseHTTPRequestHandler):
    """Answers every request with page.html."""

    def do_GET(self):
        content = (Path(__file__).parent / "page.html").read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def serve():
    """Starts a web server on a free port and returns its origin."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
