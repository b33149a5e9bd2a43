#!/usr/bin/env python3
"""Loads a running installation with users who save, and checks that no acknowledged save is lost.

It makes a container of its own with the sample model and so many users, each with so many devices. Saves begin at fixed
times, whether or not the server keeps up (an open loop), and a latency counts from the time at which its save was to
begin. So a stall of a second is seen by every save of that second. Each save is one durable transaction.

A ledger remembers what the server acknowledged. At the end a fresh device of each user imports everything, and every
acknowledged object must be there with an acknowledged value.
"""

import argparse
import math
import multiprocessing
import os
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

from aquifer import AquiferError, Client, insert, new_id, update

MODEL = Path(__file__).resolve().parents[2] / "deploy/sample/Sample.xcdatamodeld/Sample.xcdatamodel/contents"
# One process of Python sends about this many saves a second on one core.
SAVES_PER_PROCESS = 250
THREADS = 48
UPDATES = 0.2  # The part of saves that change an earlier object instead of making one.
LOST, UNUSABLE = 1, 3

EPILOG = """
exit codes: 0 every acknowledged save is there; 1 one is missing or wrong; 2 wrong arguments; 3 nothing was measured.

Read p99 first, then "not answered". Raise --saves-per-second until p99 leaves what your app can bear: that is the
capacity of the installation for saves, as this machine sees it. "began late" above a few milliseconds says that this
machine, not the server, is at its limit: add --processes, or load from another machine. deploy/bench measures more.

examples:
  source data/env         # of deploy/run, in its folder
  Clients/python/load.py --users 20 --devices 2 --saves-per-second 100 --duration 10 --url "$AQUIFER_SERVER"
  Clients/python/load.py --users 200 --devices 3 --saves-per-second 500 --duration 60 --url https://sync.example.org
"""


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", required=True, help="the gateway's address")
    parser.add_argument(
        "--operator-token",
        default=os.environ.get("AQUIFER_OPERATOR_TOKEN"),
        help="makes users; $AQUIFER_OPERATOR_TOKEN",
    )
    parser.add_argument("--users", type=positive, default=20, help="people with databases of their own (20)")
    parser.add_argument("--devices", type=positive, default=2, help="stores of each user (2)")
    parser.add_argument(
        "--saves-per-second", type=float, default=50, help="saves that begin in a second, of all users together (50)"
    )
    parser.add_argument("--duration", type=float, default=10, help="seconds of saving (10)")
    parser.add_argument(
        "--processes",
        type=positive,
        help=f"processes of this program; one for {SAVES_PER_PROCESS} saves a second by default",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order of users and devices (1)")
    parser.add_argument("--keep", action="store_true", help="leaves the users there")
    options = parser.parse_args()
    if not options.operator_token:
        parser.error("an operator token is needed: --operator-token or $AQUIFER_OPERATOR_TOKEN")
    if options.saves_per_second <= 0 or options.duration <= 0:
        parser.error("--saves-per-second and --duration are above 0")
    options.processes = min(options.processes or math.ceil(options.saves_per_second / SAVES_PER_PROCESS), options.users)
    return options


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("is at least 1")
    return number


class User:
    """A user with their devices, and the ledger of their objects."""

    def __init__(self, client, model, devices):
        self.client, self.model = client, model
        self.devices = [client.store(new_id()) for _ in range(devices)]
        # By object: the values that it may have, one after an acknowledgement. Objects that no save is changing.
        self.ledger, self.idle = {}, []
        self.lock = threading.Lock()

    def set_up(self):
        for store in self.devices:
            store.set_up(self.model, device="load")

    def save(self, chance):
        """One save of a device. Raises AquiferError; the ledger then has what may or may not be stored."""
        store = chance.choice(self.devices)
        with self.lock:
            known = self.idle.pop(chance.randrange(len(self.idle))) if self.idle and chance.random() < UPDATES else None
        name, value = known or new_id(), new_id()
        # None: until its first acknowledgement an object may be missing.
        self.ledger[name] = self.ledger.get(name, {None}) | {value}
        store.save([(update if known else insert)("Tag", name, name=value)])
        self.ledger[name] = {value}
        with self.lock:
            self.idle.append(name)

    def missing(self):
        """Imports everything to a fresh device: acknowledged objects that differ, and the number of imported ones."""
        store, found = self.client.store(new_id()), {}
        store.set_up(self.model)
        for page in store.changes():
            for change in page["changes"]:
                if change["changeType"] == "save" and change["entity"] == "Tag":
                    found[change["objectID"]] = change["attributes"].get("name")
        lost = [name for name, values in self.ledger.items() if found.get(name) not in values]
        return lost, len(found)


def run_process(options, number, people, begin, results):
    """Sends this process's part of the saves, then imports and compares. Puts one dictionary into `results`."""
    figures = defaultdict(list, refusals=Counter(), number=number)
    try:
        users = [
            User(Client(options.url, container, token, patience=30), model, options.devices)
            for container, token, model in people
        ]
        for user in users:
            user.set_up()
        begin.wait()
        send(options, number, users, figures)
        started = time.monotonic()
        for user in users:
            lost, count = user.missing()
            figures["lost"] += lost
            figures["imported"].append(count)
        figures["import_seconds"] = time.monotonic() - started
    except Exception as error:  # Whatever it is, the parent waits for this process's figures.
        begin.abort()
        figures["problem"] = repr(error)
    results.put(dict(figures))


def send(options, number, users, figures):
    """Saves at the times number, number + processes, number + 2 processes … of the whole schedule."""
    count = int(options.saves_per_second * options.duration)
    slots, lock = iter(range(number, count, options.processes)), threading.Lock()
    chance, start = random.Random(options.seed * 1000 + number), time.monotonic()

    def work(own):
        while True:
            with lock:
                slot = next(slots, None)
            if slot is None:
                return
            wanted = start + slot / options.saves_per_second
            time.sleep(max(0, wanted - time.monotonic()))
            late = time.monotonic() - wanted
            try:
                own.choice(users).save(own)
                figures["latencies"].append(time.monotonic() - wanted)
            except AquiferError as error:
                figures["refusals"][f"{error.code} ({error.status})"] += 1
            figures["late"].append(late)

    threads = [threading.Thread(target=work, args=(random.Random(chance.random()),)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures["seconds"] = time.monotonic() - start


def report(options, results):
    """Prints the figures of all processes. Returns the lost objects and the number of acknowledged saves."""
    latencies, late, lost, imported = (
        sorted(value for result in results for value in result.get(name, []))
        for name in ("latencies", "late", "lost", "imported")
    )
    refusals = sum((result["refusals"] for result in results), Counter())
    seconds = max(result["seconds"] for result in results)
    import_seconds = max(result["import_seconds"] for result in results)

    def milliseconds(values, part):
        return f"{values[min(len(values) - 1, int(len(values) * part))] * 1000:.1f}" if values else "–"

    parts = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1}
    told = ", ".join(f"{name} {milliseconds(latencies, part)}" for name, part in parts.items())
    rate = f"{len(latencies) / seconds:.0f}/s, {options.saves_per_second:g}/s wanted"
    print(f"saves         {len(latencies)} acknowledged in {seconds:.1f} s: {rate}")
    print(f"not answered  {', '.join(f'{count} {code}' for code, count in refusals.most_common()) or '0'}")
    print(f"latency, ms   {told}; began late p99 {milliseconds(late, 0.99)}")
    histogram(latencies)
    print(f"import        {sum(imported)} objects by {options.users} fresh devices in {import_seconds:.1f} s")
    print(f"ledger        {len(latencies)} acknowledged saves, {len(lost)} lost objects")
    for name in lost[:20]:
        print(f"  lost: {name}")
    return lost, len(latencies)


def histogram(latencies):
    """One line for each doubling of the time."""
    buckets = Counter(max(0, math.ceil(math.log2(value * 1000))) for value in latencies)
    for exponent in range(min(buckets, default=0), max(buckets, default=-1) + 1):
        count = buckets[exponent]
        print(f"  ≤ {2**exponent:>6} ms {count:>8}  {'█' * math.ceil(50 * count / max(buckets.values()))}")


def make_people(options, container):
    """Makes the container with its model, and the users. Returns container, token and model of each, by user name."""
    operator = Client(options.url, container, options.operator_token, patience=30)
    operator.call("POST", "/admin/1/containers", {"container": container})
    model = operator.call("PUT", f"/mirror/1/{container}/development/model", MODEL.read_bytes())["modelHash"]
    people = {}
    for number in range(options.users):
        made = operator.call("POST", "/admin/1/users", {"name": f"{container}-{number}"})
        people[made["userRecordName"]] = (container, made["webAuthToken"], model)
    return operator, people


def run_processes(options, people):
    """One process for a part of the users each. Returns their figures."""
    begin, queue = multiprocessing.Barrier(options.processes), multiprocessing.Queue()
    processes = [
        multiprocessing.Process(
            target=run_process, args=(options, number, people[number :: options.processes], begin, queue)
        )
        for number in range(options.processes)
    ]
    for process in processes:
        process.start()
    results = [queue.get() for _ in processes]
    for process in processes:
        process.join()
    return results


def main():
    options = arguments()
    container = f"iCloud.load.{new_id()[:8]}"
    try:
        operator, people = make_people(options, container)
        print(f"{options.users} users with {options.devices} devices, {options.processes} processes", flush=True)
        results = run_processes(options, list(people.values()))
        if not options.keep:
            for name in people:
                operator.call("DELETE", f"/admin/1/users/{name}")
        problems = {result["problem"] for result in results if "problem" in result}
    except AquiferError as error:
        problems = {str(error)}
    if problems:
        print("load.py: " + "; ".join(sorted(problems)), file=sys.stderr)
        return UNUSABLE
    lost, known = report(options, results)
    return LOST if lost else 0 if known else UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
