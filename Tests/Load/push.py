"""Measures the waking of sleeping devices: registers them, plays Apple's service behind nghttpx, and counts what arrives."""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import time
import urllib.request
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "Clients"))
from http2_front import http2_front  # noqa: E402

ENVIRONMENT = "development"
TOPIC = "org.example.load"
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


class Vendor(asyncio.Protocol):
    """Answers every push with 200, and remembers when which device was woken."""

    woken, answer = {}, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    count = 0

    def connection_made(self, transport):
        self.transport, self.rest = transport, b""

    def data_received(self, data):
        rest = self.rest + data
        while (end := rest.find(b"\r\n\r\n")) >= 0:
            head = rest[:end].lower()
            at = head.index(b"content-length:") + 15
            length = int(head[at : head.find(b"\r\n", at) if b"\r\n" in head[at:] else None])
            if len(rest) < end + 4 + length:
                break
            # POST /3/device/TOKEN HTTP/1.1
            Vendor.woken[head[15:79]] = time.monotonic()
            Vendor.count += 1
            self.transport.write(self.answer)
            rest = rest[end + 4 + length :]
        self.rest = rest


class Process:
    """A service's use of the machine, from /proc."""

    def __init__(self, pid):
        self.pid = pid

    @property
    def seconds(self):
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * PAGE


class Gateway:
    """Calls over kept connections, as many at a time as it has."""

    def __init__(self, url, operator):
        self.host, port = url.removeprefix("http://").split(":")
        self.port, self.operator, self.free = int(port), operator, asyncio.Queue()

    async def open(self, count):
        for _ in range(count):
            self.free.put_nowait(await asyncio.open_connection(self.host, self.port))

    async def call(self, method, path, body, token):
        content = json.dumps(body).encode()
        reader, writer = connection = await self.free.get()
        try:
            head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
            answer = await reader.readexactly(length)
        finally:
            self.free.put_nowait(connection)
        if " 200 " not in head.split("\r\n")[0]:
            raise SystemExit(f"push.py: {method} {path}: {head.splitlines()[0]} {answer.decode()}")
        return json.loads(answer)

    def admin(self, path, body):
        return self.call("POST", f"/admin/1/{path}", body, self.operator)


class World:
    """A container, its users and their devices."""

    def __init__(self, gateway, container):
        self.gateway, self.container, self.tokens = gateway, container, {}

    def call(self, token, path, body):
        return self.gateway.call("POST", f"/database/1/{self.container}/{ENVIRONMENT}/{path}", body, token)

    async def user(self):
        answer = await self.gateway.admin("users", {"name": f"load-{uuid.uuid4()}"})
        return answer["webAuthToken"]

    async def zone(self, token, name):
        await self.call(token, "private/zones/modify", {"operations": [{"operationType": "create", "zone": {"zoneID": {"zoneName": name}}}]})

    async def save(self, token, zone):
        record = {"recordName": str(uuid.uuid4()), "recordType": "Note", "fields": {"title": {"value": "Surf"}}}
        answer = await self.call(
            token, "private/records/modify",
            {"operations": [{"operationType": "create", "record": record}], "zoneID": {"zoneName": zone}},
        )  # fmt: skip
        refused = [record["reason"] for record in answer["records"] if "serverErrorCode" in record]
        if refused:
            raise SystemExit(f"push.py: {refused}")

    async def devices(self, token, count):
        """Registers devices and returns their names at the vendor."""
        names = [uuid.uuid4().hex + uuid.uuid4().hex for _ in range(count)]
        path = f"/device/1/{self.container}/{ENVIRONMENT}/tokens/register"
        await asyncio.gather(*[
            self.gateway.call("POST", path, {"apnsToken": name, "clientId": name[:32], "everyZone": True}, token) for name in names
        ])  # fmt: skip
        return [name.encode() for name in names]

    async def share(self, owner, zone, people):
        record = {
            "recordType": "cloudkit.share", "recordName": "cloudkit.zoneshare", "publicPermission": "READ_WRITE",
            "fields": {"cloudkit.title": {"value": zone}},
        }  # fmt: skip
        answer = await self.call(
            owner, "private/records/modify",
            {"operations": [{"operationType": "create", "record": record}], "zoneID": {"zoneName": zone}},
        )  # fmt: skip
        name = answer["records"][0]["shortGUID"]
        for token in people:
            await self.call(token, "public/records/accept", {"shortGUIDs": [{"value": name}]})


@contextlib.asynccontextmanager
async def vendor(certificates):
    """The address of a service that speaks HTTP/2."""
    server = await asyncio.get_running_loop().create_server(Vendor, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    try:
        with http2_front(port, certificates, "--frontend-http2-max-concurrent-streams=1000") as address:
            yield address
    finally:
        server.close()


def metric(url, name):
    """The sum of a metric's values."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


async def until(condition, what, seconds=300, pause=0.05):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"push.py: {what}: not within {seconds} s")
        await asyncio.sleep(pause)


def told(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


async def measure(options):
    with open(f"{options.folder}/ready.json") as file:
        ready = json.load(file)
    notifier, share = (Process(ready["pids"][role][0]) for role in ("notifier", "share"))
    admin = ready["admin"]["notifier"]
    gateway = Gateway(ready["gateway"], ready["operatorToken"])
    await gateway.open(16)
    world = World(gateway, "iCloud.org.example.push")
    await gateway.admin("containers", {"container": world.container})
    async with vendor(options.folder) as address:
        with open(f"{options.folder}/apple.p8") as file:
            key = file.read()
        service = {"name": "apple", "kind": "apns", "teamID": "TEAM", "keyID": "KEY", "topic": TOPIC}
        await gateway.admin("push-services", service | {"privateKey": key, "url": address})

        told(f"registering {options.people * options.devices} devices of a shared zone's people")
        owner, people = await world.user(), [await world.user() for _ in range(options.people)]
        await world.zone(owner, "Shared")
        await world.share(owner, "Shared", people)
        shared = [name for token in people for name in await world.devices(token, options.devices)]

        users = await asyncio.gather(*[world.user() for _ in range(max(1, options.registrations // 250))])
        told(f"registering {options.registrations} devices of {len(users)} more people")
        before, began = (notifier.memory, share.memory), time.monotonic()
        each = options.registrations // len(users)
        owned = [name for token in users for name in await world.devices(token, each)]
        registering = time.monotonic() - began
        await asyncio.gather(*[world.zone(token, "Own") for token in users])
        count = len(shared) + len(owned)
        await until(lambda: metric(admin, "aquifer_push_registrations") == count, "the notifier knows all devices")
        known = time.monotonic() - began
        memory = [(now - then) / len(owned) for now, then in zip((notifier.memory, share.memory), before)]
        # The zones' own pings.
        await until(lambda: metric(admin, "aquifer_pushes_waiting") == 0, "no push waits")

        told(f"{options.rounds} saves in the shared zone")
        latencies, medians = [], []
        for _ in range(options.rounds):
            Vendor.woken.clear()
            began = time.monotonic()
            await world.save(owner, "Shared")
            await until(lambda: len(Vendor.woken) == len(shared), "all devices of the zone are woken", pause=0.002)
            times = sorted(Vendor.woken[name] - began for name in shared)
            latencies.append(times[-1] * 1000)
            medians.append(statistics.median(times) * 1000)
            await until(lambda: metric(admin, "aquifer_pushes_waiting") == 0, "no push waits")

        told(f"a save of each of {len(users)} people, {len(owned)} pushes")
        Vendor.woken.clear()
        spent, began = notifier.seconds, time.monotonic()
        await asyncio.gather(*[world.save(token, "Own") for token in users])
        await until(lambda: len(Vendor.woken) == len(owned), "all devices are woken")
        took = time.monotonic() - began
        # A tick at least.
        spent = max(notifier.seconds - spent, 1 / TICKS)
    return {
        "lastDevice": statistics.median(latencies),
        "lastDeviceWorst": max(latencies),
        "medianDevice": statistics.median(medians),
        "processor": len(owned) / spent,
        "pushes": len(owned) / took,
        "notifierMemory": memory[0] / 1000,
        "shareMemory": memory[1] / 1000,
        "registered": len(owned) / registering,
        "known": known - registering,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="has ready.json of an installation, key.pem, chain.pem and apple.p8")
    parser.add_argument("--registrations", type=int, default=100_000, help="of other people, 250 of each")
    parser.add_argument("--people", type=int, default=100, help="of a shared zone, besides its owner")
    parser.add_argument("--devices", type=int, default=3, help="of each of them")
    parser.add_argument("--rounds", type=int, default=10, help="saves in the shared zone")
    for key, value in asyncio.run(measure(parser.parse_args())).items():
        print(json.dumps({"key": key, "value": value}))


main()
