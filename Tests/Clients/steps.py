"""Shared parts of the client scripts: printed steps, and settings from the environment."""

import contextlib
import os
import sys
import time
import traceback
from dataclasses import dataclass
from urllib.parse import quote


@dataclass
class Surroundings:
    """The installation of the test that runs the script: a container, an API token, and two users."""

    gateway: str
    notifier: str
    operator: str
    container: str
    api_token: str
    alice: str
    bob: str
    authority: str | None

    @classmethod
    def read(cls):
        env = os.environ
        return cls(
            gateway=env["CLIENT_GATEWAY"],
            notifier=env["CLIENT_NOTIFIER"],
            operator=env["CLIENT_OPERATOR"],
            container=env["CLIENT_CONTAINER"],
            api_token=env["CLIENT_API_TOKEN"],
            alice=env["CLIENT_ALICE"],
            bob=env["CLIENT_BOB"],
            authority=env.get("CLIENT_AUTHORITY"),
        )

    def database(self, name):
        return f"{self.gateway}/database/1/{self.container}/development/{name}"


class Steps:
    def __init__(self, client):
        self.client = client
        self.started = time.monotonic()
        self.count = 0

    @contextlib.contextmanager
    def step(self, sentence):
        try:
            yield
        except Exception:
            print(f"✘ {self.client}: {sentence}")
            traceback.print_exc(file=sys.stdout)
            payload = getattr(sys.exc_info()[1], "payload", None)
            if payload is not None:
                print(f"  the answer: {payload}")
            cause = sys.exc_info()[1].__cause__
            if cause is not None:
                print(f"  because: {cause}")
            sys.exit(1)
        self.count += 1
        print(f"· {self.client}: {sentence}", flush=True)

    def done(self):
        print(f"· {self.client}: {self.count} steps in {time.monotonic() - self.started:.1f} s", flush=True)


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def equal(found, expected, what="value"):
    if found != expected:
        raise AssertionError(f"{what} is {found!r}, expected {expected!r}")


@contextlib.contextmanager
def raises(kind, *parts):
    """The block must raise `kind` with all `parts` in its text or payload."""
    try:
        yield
    except kind as error:
        text = f"{error} {getattr(error, 'payload', '')} {getattr(error, 'code', '')}"
        for part in parts:
            expect(part in text, f"{part!r} is not in {text}")
        return
    raise AssertionError(f"no {kind} with {parts}")


def percent_encoded(token):
    return quote(token, safe="")
