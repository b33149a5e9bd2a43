"""A bucket on moto's server behind a proxy with faults, for tests. Prints its two ports and ends with its input.

A request to the proxy's path /-/faults replaces the list of faults: {"method", "match", "do", "times", "value"}.
"""

import hashlib
import http.client
import http.server
import json
import re
import socket
import sys
import threading
import time
import urllib.request
from datetime import datetime, timezone
from email.utils import formatdate
from urllib.parse import parse_qs, urlsplit

from moto.server import ThreadedMotoServer

moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
moto.start()
store = moto.get_host_and_port()[1]
faults = []
lock = threading.Lock()
replaced = threading.Condition(lock)


def refusal(status, code):
    return status, f"<Error><Code>{code}</Code></Error>".encode()


def fault(method, target):
    """The first fault that fits, which is used up."""
    with lock:
        for item in faults:
            if item["times"] > 0 and item["method"] in ("*", method) and item.get("match", "") in target:
                item["times"] -= 1
                return item["do"], item.get("value", 0)
    return None, 0


def page(document, query, length):
    """A page of a list of uploads, after the markers of the query."""
    uploads = re.findall(rb"<Upload>.*?</Upload>", document, re.DOTALL)
    markers = [re.search(rb"<UploadId>(.*?)</UploadId>", item).group(1).decode() for item in uploads]
    start = markers.index(query["upload-id-marker"][0]) + 1 if "upload-id-marker" in query else 0
    end = min(start + length, len(uploads))
    kept = b"".join(uploads[start:end])
    if end < len(uploads):
        key = re.search(rb"<Key>(.*?)</Key>", uploads[end - 1]).group(1).decode()
        kept += f"<IsTruncated>true</IsTruncated><NextKeyMarker>{key}</NextKeyMarker>".encode()
        kept += f"<NextUploadIdMarker>{markers[end - 1]}</NextUploadIdMarker>".encode()
    return b"<ListMultipartUploadsResult>" + kept + b"</ListMultipartUploadsResult>"


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, headers=()):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self):
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def judged(self, body, clock):
        """The refusal of a server that compares times and hashes, as Amazon's does and moto does not."""
        query = parse_qs(urlsplit(self.path).query)
        sent = self.headers.get("x-amz-date") or query.get("X-Amz-Date", [None])[0]
        if sent:
            moment = datetime.strptime(sent, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
            if moment + int(query.get("X-Amz-Expires", ["900"])[0]) < clock:
                return refusal(403, "AccessDenied" if "X-Amz-Expires" in query else "RequestTimeTooSkewed")
            if moment - clock > 900:
                return refusal(403, "RequestTimeTooSkewed")
        wanted = self.headers.get("x-amz-content-sha256")
        if wanted and len(wanted) == 64 and wanted != hashlib.sha256(body).hexdigest():
            return refusal(400, "XAmzContentSHA256Mismatch")
        tag = self.headers.get("x-amz-copy-source-if-match")
        if tag and tag != self.tag_of(self.headers["x-amz-copy-source"]):
            return refusal(412, "PreconditionFailed")
        return None

    def tag_of(self, source):
        connection = http.client.HTTPConnection("127.0.0.1", store)
        connection.request("HEAD", source, headers={"Authorization": self.headers.get("Authorization", "")})
        found = connection.getresponse().getheader("ETag")
        connection.close()
        return found

    def handle_any(self):
        length = int(self.headers.get("Content-Length", 0))
        if self.path == "/-/faults":
            with lock:
                faults[:] = json.loads(self.rfile.read(length))
                replaced.notify_all()
            return self.answer(200, b"")
        do, value = fault(self.command, self.path)
        if do == "half":
            self.rfile.read(length // 2)
            return self.hang_up()
        body = self.rfile.read(length)
        if do == "refuse":
            status, text = refusal(value, "SlowDown" if value >= 500 else "InvalidRequest")
            return self.answer(status, text, [("Retry-After", "0")])
        if do == "show":
            return self.answer(200, b"<html><body><p>Back soon</p></body></html>")
        if do == "slow":
            time.sleep(value)
        if do == "hold":
            with lock:
                replaced.wait()
        if do == "damage" and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        clock = time.time() + (value if do == "skew" else 0)
        judged = self.judged(body, clock)
        if judged:
            return self.answer(judged[0], judged[1], [("Date", formatdate(clock, usegmt=True))])
        connection = http.client.HTTPConnection("127.0.0.1", store)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        connection.request(self.command, self.path, body=body, headers=headers)
        found = connection.getresponse()
        content = found.read()
        connection.close()
        if do == "lose":
            return self.hang_up()
        kept = [
            (name, value)
            for name, value in found.getheaders()
            if name.lower() not in ("connection", "transfer-encoding", "server")
        ]
        if do == "page":
            content = page(content, parse_qs(urlsplit(self.path).query, keep_blank_values=True), value)
            kept = [item for item in kept if item[0].lower() != "content-length"]
        if do == "forget":
            kept = [(name, "AAAA" if name.lower() == "x-amz-checksum-sha256" else value) for name, value in kept]
        if do == "cut":
            self.send_response_only(found.status)
            for name, text in kept:
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(content[:value])
            return self.hang_up()
        self.answer(found.status, content, kept)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
proxy.daemon_threads = True
threading.Thread(target=proxy.serve_forever, daemon=True).start()
make = urllib.request.Request(f"http://127.0.0.1:{store}/bucket", method="PUT")
make.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request")
urllib.request.urlopen(make).close()
print(json.dumps({"proxy": proxy.server_port, "store": store}), flush=True)
sys.stdin.read()
