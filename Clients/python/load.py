#!/usr/bin/env python3
"""Loads a running installation with users who save, and checks that no acknowledged save is lost.

It makes a container of its own with the sample model and so many users, each with so many devices. Saves begin at fixed
times, whether or not the server keeps up (an open loop), and a latency counts from the time at which its save was to
begin. So a stall of a second is seen by every save of that second. Each save is one durable transaction.

A ledger remembers what the server acknowledged. At the end, when the saves have become records, a fresh device of
each user imports everything, and every acknowledged object must be there with an acknowledged value. Users who lost an
object stay for a look at them; the others are deleted.
"""

import argparse
import contextlib
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
STATUS_PAUSE = 0.2
READY = "ready"

EPILOG = """
exit codes: 0 every acknowledged save is there; 1 one is missing or wrong; 2 wrong arguments; 3 it is not known, because
something failed, or saves became no records in time ("not exported").

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
    parser.add_argument(
        "--patience",
        type=float,
        default=30,
        help="seconds in which a call is sent again, and in which saves become records at the end (30)",
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

    def exported(self):
        """Waits until all saves are records. False: some of them still are none."""
        end = time.monotonic() + self.client.patience
        for store in self.devices:
            while store.status()["pendingUploads"]:
                if time.monotonic() > end:
                    return False
                time.sleep(STATUS_PAUSE)
        return True

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


def run_process(options, number, people, parent, others):
    """Sends this process's part of the saves, then imports and compares. Tells the parent of READY and of the figures,
    one dictionary; the parent says in between whether all processes are ready. others: the parent's ends of pipes,
    which a fork brings along: with them open, nobody would notice that the parent was killed."""
    for link in others:
        link.close()
    figures = defaultdict(list, refusals=Counter(), number=number)
    try:
        users = [
            User(Client(options.url, container, token, patience=options.patience), model, options.devices)
            for container, token, model in people
        ]
        for user in users:
            user.set_up()
        parent.send(READY)
        if not parent.recv():
            return
        send(options, number, users, figures)
        started = time.monotonic()
        for user in users:
            compare(user, figures)
        figures["import_seconds"] = time.monotonic() - started
    except Exception as error:  # Whatever it is, the parent waits for this process's figures.
        figures["problems"].append(repr(error))
    with contextlib.suppress(OSError):  # Nobody waits any more: the parent was killed.
        parent.send(dict(figures))


def compare(user, figures):
    """Adds a user's lost objects to the figures. A problem with one user hides no loss of another."""
    try:
        if user.exported():
            lost, count = user.missing()
            figures["lost"] += lost
            figures["imported"].append(count)
        else:
            figures["unexported"].append(user.devices[0].identifier)
    except AquiferError as error:
        figures["problems"].append(str(error))


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
                with lock:
                    figures["refusals"][f"{error.code} ({error.status})"] += 1
            figures["late"].append(late)

    threads = [threading.Thread(target=work, args=(random.Random(chance.random()),)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures["seconds"] = time.monotonic() - start


def report(options, results):
    """Prints the figures of all processes. Returns the exit code that they mean."""
    latencies, late, lost, imported = (
        sorted(value for result in results for value in result.get(name, []))
        for name in ("latencies", "late", "lost", "imported")
    )
    refusals = sum((result["refusals"] for result in results), Counter())
    seconds, import_seconds = (max(result.get(name, 0) for result in results) for name in ("seconds", "import_seconds"))
    unexported = sum(len(result.get("unexported", [])) for result in results)

    def milliseconds(values, part):
        return f"{values[min(len(values) - 1, int(len(values) * part))] * 1000:.1f}" if values else "–"

    parts = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1}
    told = ", ".join(f"{name} {milliseconds(latencies, part)}" for name, part in parts.items())
    rate = f"{len(latencies) / max(seconds, 0.001):.0f}/s, {options.saves_per_second:g}/s wanted"
    print(f"saves         {len(latencies)} acknowledged in {seconds:.1f} s: {rate}")
    print(f"not answered  {', '.join(f'{count} {code}' for code, count in refusals.most_common()) or '0'}")
    print(f"latency, ms   {told}; began late p99 {milliseconds(late, 0.99)}")
    histogram(latencies)
    print(f"import        {sum(imported)} objects by {len(imported)} fresh devices in {import_seconds:.1f} s")
    if unexported:
        print(f"not exported  {unexported} users: not all of their saves are records yet, so none was compared")
    print(f"ledger        {len(latencies)} acknowledged saves, {len(lost)} lost objects")
    for name in lost[:20]:
        print(f"  lost: {name}")
    return LOST if lost else UNUSABLE if unexported or not latencies else 0


def histogram(latencies):
    """One line for each doubling of the time."""
    buckets = Counter(max(0, math.ceil(math.log2(value * 1000))) for value in latencies)
    for exponent in range(min(buckets, default=0), max(buckets, default=-1) + 1):
        count = buckets[exponent]
        print(f"  ≤ {2**exponent:>6} ms {count:>8}  {'█' * math.ceil(50 * count / max(buckets.values()))}")


def make_people(options, container):
    """Makes the container with its model, and the users. Returns container, token and model of each, by user name."""
    operator = Client(options.url, container, options.operator_token, patience=options.patience)
    operator.call("POST", "/admin/1/containers", {"container": container})
    model = operator.call("PUT", f"/mirror/1/{container}/development/model", MODEL.read_bytes())["modelHash"]
    people = {}
    for number in range(options.users):
        made = operator.call("POST", "/admin/1/users", {"name": f"{container}-{number}"})
        people[made["userRecordName"]] = (container, made["webAuthToken"], model)
    return operator, people


def run_processes(options, people):
    """One process for a part of the users each. Returns their figures."""
    # By pipes, which end with their process; one that is killed would leave a queue or a barrier locked.
    processes, links = [], []
    for number in range(options.processes):
        link, theirs = multiprocessing.Pipe()
        part = people[number :: options.processes]
        links.append(link)
        processes.append(multiprocessing.Process(target=run_process, args=(options, number, part, theirs, links)))
        processes[-1].start()
        theirs.close()
    told = [next_word(link, number) for number, link in enumerate(links)]
    begins = all(word == READY for word in told)
    for link, word in zip(links, told):
        if word == READY:
            with contextlib.suppress(OSError):  # The process was killed meanwhile, and its next word says so.
                link.send(begins)
    if begins:
        told = [next_word(link, number) for number, link in enumerate(links)]
    for process in processes:
        process.join()
    return [word for word in told if word != READY]


def next_word(link, number):
    """The next word of a process, or figures with a problem if it ended without one."""
    try:
        return link.recv()
    except (EOFError, OSError):
        return {"problems": [f"process {number} ended before it was done"], "refusals": Counter()}


def remove(operator, people):
    try:
        for name in people:
            operator.call("DELETE", f"/admin/1/users/{name}")
    except AquiferError as error:
        tell([f"the users stay: {error}"])


def tell(problems):
    if problems:
        print("load.py: " + "; ".join(problems), file=sys.stderr)


def main():
    options = arguments()
    container = f"iCloud.load.{new_id()[:8]}"
    try:
        operator, people = make_people(options, container)
    except AquiferError as error:
        tell([str(error)])
        return UNUSABLE
    print(f"{options.users} users with {options.devices} devices, {options.processes} processes", flush=True)
    results = run_processes(options, list(people.values()))
    problems = {problem for result in results for problem in result.get("problems", [])}
    tell(sorted(problems))
    has_lost = any(result.get("lost") for result in results)
    code = UNUSABLE if problems and not has_lost else report(options, results)
    if not options.keep and not has_lost:
        remove(operator, people)
    return code


if __name__ == "__main__":
    sys.exit(main())
