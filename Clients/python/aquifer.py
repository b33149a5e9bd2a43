"""Aquifer's object plane for programs in Python: one file of the standard library (3.9 and later), to be copied.

    client = Client("http://127.0.0.1:8080", "iCloud.org.example.journal", token, notifier="http://127.0.0.1:8081")
    phone = client.store("0C7A7E54-52F2-4B2E-9C55-9D4C6C9B0001")
    phone.set_up(model_hash)
    phone.save([insert("Tag", new_id(), name="tide")])
    for page in phone.changes(after=kept_token):
        ...  # applies page["changes"] and keeps page["importToken"], both or neither

A call that gets no answer, or a temporary refusal, is sent again under the same identifier, so the server does it once.
A call ends with an answer or with an `AquiferError`. Any number of threads may use a `Client`.
"""

import gzip
import http.client
import json
import os
import random
import ssl
import threading
import time
import uuid
import warnings
import zlib
from datetime import datetime, timezone
from urllib.parse import quote, urlencode, urlsplit


class AquiferError(Exception):
    """A refusal of the server, or no answer from it.

    status: HTTP's number, 0 without an answer. code: `serverErrorCode`, such as "BAD_REQUEST"; "NO_ANSWER" also for the
    page of a proxy. retry_after: seconds, or None. cocoa_code: Core Data's number, or None. body: the whole answer as a
    dictionary.
    """

    TEMPORARY = (0, 429, 502, 503, 504)

    def __init__(self, status, body, retry_after=None):
        self.status, self.body = status, body
        self.code = body.get("serverErrorCode", "NO_ANSWER")
        self.reason = body.get("reason", "")
        self.retry_after = body.get("retryAfter", retry_after)
        self.cocoa_code = body.get("cocoaErrorCode")
        super().__init__(f"{self.code} ({status}): {self.reason}")

    @property
    def is_temporary(self):
        """True when the same request may succeed later."""
        return self.code == "NO_ANSWER" or self.status in self.TEMPORARY


def new_id():
    return str(uuid.uuid4()).upper()


def insert(entity, object_id, relationships=None, **attributes):
    """A change that makes an object. A to-one relationship is an objectID or None, a to-many one a list of them."""
    return _change("insert", entity, object_id, attributes, relationships)


def update(entity, object_id, relationships=None, **attributes):
    """A change of what it names. A to-many relationship is the whole list, or {"add": [...], "remove": [...]}."""
    return _change("update", entity, object_id, attributes, relationships)


def delete(entity, object_id):
    return {"changeType": "delete", "entity": entity, "objectID": object_id}


def _change(kind, entity, object_id, attributes, relationships):
    change = {"changeType": kind, "entity": entity, "objectID": object_id, "attributes": attributes}
    return {**change, "relationships": relationships} if relationships else change


# Each thread keeps one to a server, for all of its clients: a server limits the connections of an address.
_connections = threading.local()


class Client:
    """A user's access to a container."""

    LONGEST_PAUSE = 300
    SILENCE = 45  # Seconds: a living stream shows itself more often.
    PIECE = 64 * 1024  # Bytes that are sent within `timeout`.
    NEXT_TOKEN = "X-Apple-CloudKit-Web-Auth-Token"

    def __init__(
        self, url, container, token, *, environment="development", notifier=None, patience=120, timeout=75, ca=None,
        on_token=None,
    ):  # fmt: skip
        """patience: seconds in which a call is sent again. timeout: seconds in which a try has to get on, longer than
        any `wait`; a large upload may take more. ca: a file of certificates that are trusted instead of the system's.
        on_token: keeps a session's next token, which replaces the last one once on_token has returned; it is called by
        one thread at a time."""
        self.url, self.notifier, self.token = url.rstrip("/"), (notifier or "").rstrip("/"), token
        self.container, self.environment, self.ca = container, environment, ca
        self.patience, self.timeout = patience, timeout
        self._on_token, self._renewing = on_token or (lambda token: None), threading.RLock()

    def store(self, identifier, database="private"):
        """The store of a device. database: "private", "shared" or "public"."""
        return Store(self, identifier, database)

    def call(self, method, path, body=None, **query):
        """One call of either plane, answered in JSON. body: a dictionary or bytes. The query leaves out what is None.

        Raises AquiferError for a refusal, and when there was no answer within `patience`."""
        text = urlencode({name: value for name, value in query.items() if value is not None}, quote_via=quote)
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        address = self.url + path + ("?" + text if text else "")
        return self._insist(method, address, data, {"X-Request-ID": new_id()}, is_own=True)

    def download(self, asset):
        """The content of an asset of an import; its address holds for a while, and `Store.object` gives another one."""
        asset = asset.get("asset", asset)
        try:
            return self._insist("GET", asset["downloadURL"], is_json=False)
        except AquiferError as error:
            if error.status != 302:
                raise
            # The content is in a bucket.
            return self._insist("GET", error.body["redirectURL"], is_json=False)

    def pings(self, *stores):
        """Tells of changed zones without end: {"zoneName", "ownerRecordName", "scope"}; no store hears of itself.

        A ping is a hint. None comes at each connect: import then, because pings may have been lost before."""
        query = urlencode([("device", store.identifier) for store in stores])
        url = f"{self.notifier}/mirror/1/{self.container}/{self.environment}/pings?{query}"
        for _, data in self._listen(url, None):
            yield self._ping(data)

    @staticmethod
    def _ping(data):
        """None for a form that is not known: import then."""
        try:
            # Subscriptions of a database, a zone and a query name the zone alike.
            told = data["ck"].get("met") or data["ck"].get("fet") or data["ck"].get("qry")
            scope = {0: "public", 1: "private", 2: "shared"}[told["dbs"]]
            return {"zoneName": told["zid"], "ownerRecordName": told["zoid"], "scope": scope}
        except (AttributeError, KeyError, TypeError):
            return None

    # Tries

    def _insist(self, method, url, data=None, headers=None, is_json=True, is_own=False):
        """Sends until there is an answer, a lasting refusal, or no patience left.

        data: bytes; a file could not be sent again. is_json: the answer is the server's own, an object in JSON; False:
        it is bytes, and refusals have no form. is_own: each try carries the token."""
        data = None if data is None else memoryview(data).cast("B")
        end, attempt = time.monotonic() + self.patience, 0
        while True:
            try:
                content = self._send(method, url, data, headers or {}, is_own)
                return self._json(content) if is_json else content
            except AquiferError as error:
                pause = self._pause(attempt, error)
                is_temporary = error.is_temporary if is_json else error.status in error.TEMPORARY
                if not is_temporary or time.monotonic() + pause > end:
                    raise
            time.sleep(pause)
            attempt += 1

    @staticmethod
    def _json(content):
        try:
            answer = json.loads(content)
        except ValueError as error:
            raise AquiferError(0, {"reason": f"the answer is not the server's: {error}"}) from error
        if not isinstance(answer, dict):
            raise AquiferError(0, {"reason": "the answer is not the server's: it is no object"})
        return answer

    def _pause(self, attempt, error=None):
        """Seconds: those that the server names, or doubling ones with jitter, so that clients come back one by one."""
        if error is not None and error.retry_after is not None:
            return float(error.retry_after)
        return random.uniform(0, min(self.LONGEST_PAUSE, 2 ** min(attempt, 20)))

    def _renew(self, sent, following):
        """Takes the token that follows the sent one, unless another answer has brought it already. One that can't be
        kept is not taken: the sent one holds for a while, and the next answer brings the same one again."""
        with self._renewing:
            if following and sent == self.token != following:
                try:
                    self._on_token(following)
                except Exception as error:  # The call has its answer, which is none of on_token's business.
                    warnings.warn(f"on_token could not keep the session's next token: {error!r}", stacklevel=2)
                else:
                    self.token = following

    def _send(self, method, url, data, headers, is_own):
        place = urlsplit(url)
        kept = _connections.__dict__.pop(self._key(place), None)
        if kept:
            try:
                return self._exchange(kept, place, method, data, headers, is_own)
            except AquiferError as error:
                if error.status:
                    raise  # Without an answer the server had closed the idle connection.
        return self._exchange(self._connect(place, self.timeout), place, method, data, headers, is_own)

    def _exchange(self, connection, place, method, data, headers, is_own):
        target, token = place.path + ("?" + place.query if place.query else ""), self.token
        credentials = {"Authorization": f"Bearer {token}"} if is_own else {}
        headers, pieces = {"Accept-Encoding": "gzip", **credentials, **headers}, None
        if data is not None:
            headers["Content-Length"] = str(len(data))
            pieces = (data[start : start + self.PIECE] for start in range(0, len(data), self.PIECE))
        try:
            connection.request(method, target, pieces, headers)
            response = connection.getresponse()
            content = response.read()
            if response.getheader("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error, http.client.HTTPException) as error:
            connection.close()
            raise AquiferError(0, {"reason": f"{method} {place.path}: {error!r}"}) from error
        if not response.will_close:
            _connections.__dict__[self._key(place)] = connection
        if is_own:
            self._renew(token, response.getheader(self.NEXT_TOKEN))
        if not 200 <= response.status < 300:
            raise self._refusal(response, content)
        return content

    def _key(self, place):
        return os.getpid(), place.scheme, place.netloc, self.timeout, self.ca  # A fork must not share a connection.

    def _connect(self, place, timeout):
        if place.scheme == "https":
            context = ssl.create_default_context(cafile=self.ca)
            return http.client.HTTPSConnection(place.netloc, timeout=timeout, context=context)
        return http.client.HTTPConnection(place.netloc, timeout=timeout)

    @staticmethod
    def _refusal(response, content):
        try:
            body = json.loads(content)
        except ValueError:
            body = {}
        seconds = response.getheader("Retry-After", "")
        body = body if isinstance(body, dict) else {}
        if response.status == 302:
            body["redirectURL"] = response.getheader("Location", "")
        return AquiferError(response.status, body, int(seconds) if seconds.isdecimal() else None)

    # Streams

    def _listen(self, url, last):
        """Pairs of identifier and data of a stream's events, from one connection after the other; (None, None) at each
        connect. last: the identifier of the event after which the first connection begins."""
        attempt = 0
        while True:
            problem = None
            try:
                for identifier, data in self._stream(url, last):
                    attempt, last = 0, identifier or last
                    yield identifier, data
            except AquiferError as error:
                if not error.is_temporary:
                    raise
                problem = error
            time.sleep(self._pause(attempt, problem))
            attempt += 1

    def _stream(self, url, last):
        place = urlsplit(url)
        connection = self._connect(place, self.SILENCE)
        token = self.token
        headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        if last:
            headers["Last-Event-ID"] = last
        try:
            connection.request("GET", f"{place.path}?{place.query}", headers=headers)
            response = connection.getresponse()
            if response.status != 200 or "event-stream" not in response.getheader("Content-Type", ""):
                raise self._refusal(response, response.read())
            self._renew(token, response.getheader(self.NEXT_TOKEN))
            identifier, data, is_connected = None, [], False
            for line in response:
                if not is_connected:
                    is_connected = True  # The server greets at once; a proxy without it may not.
                    yield None, None
                name, _, value = line.decode().rstrip("\r\n").partition(":")
                if name == "id":
                    identifier = value.lstrip(" ")
                elif name == "data":
                    data.append(value.lstrip(" "))
                elif not name and not value and data:  # An empty line ends an event; a colon begins a comment.
                    yield identifier, json.loads("\n".join(data))
                    identifier, data = None, []
        except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: an event is broken.
            raise AquiferError(0, {"reason": f"{place.path}: {error!r}"}) from error
        finally:
            connection.close()


class Store:
    """One device's store of a database."""

    def __init__(self, client, identifier, database):
        self.client, self.identifier, self.database = client, identifier, database
        scope = f"{client.container}/{client.environment}/{database}"
        self._path, self._records = f"/mirror/1/{scope}/stores/{quote(identifier, safe='')}", f"/database/1/{scope}"

    def call(self, method, path="", body=None, **query):
        """Any call of the store; path: such as "/status"."""
        return self.client.call(method, self._path + path, body, **query)

    def set_up(self, model_hash, device=None, **options):
        """Makes the store, or tells the server of another model. options: the other keys of the call."""
        return self.call("PUT", "", {"modelHash": model_hash, "device": {"name": device} if device else {}, **options})

    def save(self, changes, *, transaction_id=None, author="app", after=None, wait=False, **options):
        """Saves changes as one transaction. When this returns, they are stored durably.

        transaction_id: the name under which a program that was killed saves again what it may have saved. after: the
        import token at the time of the edit. wait: until the changes are exported to records; the answer tells how."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        transaction = {"transactionID": transaction_id or new_id(), "timestamp": now, "author": author, **options}
        if after:
            transaction["importToken"] = after
        body = {"transactions": [{**transaction, "changes": changes}]}
        return self.call("POST", "/transactions", body, wait="export" if wait else None)

    def changes(self, after=None, *, limit=1000, assets="inline", wait=None):
        """Pages of changes of the other stores, until there are no more: {"changes", "importToken", ...}.

        after: the last page's token, None for everything. assets: "links" leaves large bytes to `Client.download`.
        wait: seconds for which a page without changes is held. An error of status 410: begin anew, without a token.
        A "zone" with the action "reupload": a program that keeps its objects inserts them again, author="reupload"."""
        while True:
            page = self.call("GET", "/changes", after=after, limit=limit, assets=assets, wait=wait)
            yield page
            after = page["importToken"]
            if not page["moreComing"]:
                return

    def events(self, after=None):
        """The store's events without end, each with its start and its end; None at each connect. after: an event."""
        for _, event in self.client._listen(f"{self.client.url}{self._path}/events", after):
            yield event

    def object(self, object_id):
        return self.call("GET", "/objects/" + quote(object_id, safe=""))

    def status(self):
        return self.call("GET", "/status")

    def upload(self, content, entity, attribute, object_id):
        """Sends bytes; the answer is the attribute's value in a save, such as {"asset": {...}}."""
        token = {"recordType": f"CD_{entity}", "recordName": object_id, "fieldName": f"CD_{attribute}_ckAsset"}
        zone = {"zoneName": "com.apple.coredata.cloudkit.zone"}
        tokens = self.client.call("POST", f"{self._records}/assets/upload", {"zoneID": zone, "tokens": [token]})
        return {"asset": self.client._insist("POST", tokens["tokens"][0]["url"], content)["singleFile"]}

    def share(self, object_ids, *, to=None, title=None, **options):
        """Shares object graphs: {"share", "zoneID", "moved"}. to: an existing share's zone. options: the other keys."""
        return self.call("POST", "/shares", {"objectIDs": object_ids, "to": to, "title": title, **options})

    def accept(self, *short_guids):
        """Joins shares, by a store of the shared database: a result each."""
        return self.call("POST", "/accept", {"shortGUIDs": [{"value": guid} for guid in short_guids]})["results"]
