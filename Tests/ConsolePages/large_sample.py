"""Figures of the made-up installation's processes: they rise and fall, and one shard moves each 20 seconds."""

import hashlib
import math
import time

WORKERS = 50
SHARDS = 256
USERS = 10_000
ZONES = 2_000
RECORDS = 1_000_000


def noise(name, now):
    seed = int(hashlib.sha256(name.encode()).hexdigest()[:6], 16)
    return 1 + 0.4 * math.sin(now / 97 + seed) + 0.15 * math.sin(now / 13 + seed * 2)


def holder(shard, now):
    """One shard moves each 20 seconds."""
    moved = int(now / 20) % SHARDS
    return f"worker-{(shard + (1 if shard == moved else 0)) % WORKERS + 1}"


def values(role, name, now):
    level = noise(name, now)
    common = {
        "memory_bytes": 60e6 * level,
        "processor_seconds_per_second": 0.18 * level,
        "requests_per_second": 240 * level,
    }
    if role == "gateway":
        return common | {
            "record_requests_per_second": 900 * level,
            "object_requests_per_second": 1400 * noise(name + "o", now),
            "other_requests_per_second": 40 * level,
            "record_latency_p50_ms": 1.2 * level,
            "record_latency_p99_ms": 9 * level,
            "object_latency_p50_ms": 2.1 * level,
            "object_latency_p99_ms": 14 * level,
            "errors_409_per_second": max(0, level - 1.2),
            "errors_503_per_second": max(0, level - 1.45),
        }
    if role == "worker":
        return common | {
            "commits_per_second": 60 * level,
            "group_size": 9 * level,
            "sync_lag_ms": 80 * level,
            "queue_length": int(4 * level),
            "longest_queue": int(2 * level),
            "waiting_transactions": int(3 * level),
            "quarantined": 0,
            "shards_open": SHARDS // WORKERS,
            "database_bytes": 4e9 + 1e6 * now % 1e9,
            "disk_free_bytes": 2.1e11,
            "disk_size_bytes": 5e11,
        }
    if role == "notifier":
        return common | {"pings_per_second": 700 * level, "listeners": 8000 + int(300 * level)}
    return common | {"disk_free_bytes": 9e10, "disk_size_bytes": 1e11}


def processes():
    yield from (("gateway", f"gateway-{n}") for n in range(1, 5))
    yield from (("notifier", f"notifier-{n}") for n in range(1, 3))
    yield ("share", "share")
    yield from (("worker", f"worker-{n}") for n in range(1, WORKERS + 1))


def sample():
    now = time.time()
    rows = [
        {
            "name": name,
            "role": role,
            "version": "0.1.0",
            "ready": True,
            "values": {key: round(value, 2) for key, value in values(role, name, now).items()},
        }
        for role, name in processes()
    ]
    shards = [{"shard": shard, "holder": holder(shard, now), "state": "open"} for shard in range(SHARDS)]
    return {"at": int(now * 1000), "processes": rows, "shards": shards, "silent": []}


def history():
    now = time.time()
    step = 10
    start = int(now) - 3600
    series = {}
    for role, name in processes():
        frames = [values(role, name, start + index * step) for index in range(360)]
        for key in frames[0]:
            series[f"{name}/{key}"] = [round(frame[key], 2) for frame in frames]
    return {"start": start * 1000, "step": step * 1000, "series": series}


def status():
    now = time.time()
    members = [
        {"name": name, "role": role, "ready": True, "endpoint": "", "adminURL": ""} for role, name in processes()
    ]
    workers = [
        {
            "name": f"worker-{n}",
            "ready": True,
            "silent": False,
            "shards": [],
            "opening": 0,
            "databases": USERS // WORKERS,
            "zones": ZONES // WORKERS,
            "records": RECORDS // WORKERS,
            "stores": 2 * USERS // WORKERS,
            "pendingPings": 0,
            "waitingTransactions": int(3 * noise(str(n), now)),
            "quarantined": 0,
            "queue": 2,
            "longestQueue": 1,
            "diskFree": int(2.1e11),
            "diskSize": int(5e11),
            "problems": [],
        }
        for n in range(1, WORKERS + 1)
    ]
    return {
        "members": members,
        "shards": {"count": SHARDS, "held": SHARDS},
        "mapVersion": 1,
        "sharedZones": 40,
        "workers": workers,
    }
