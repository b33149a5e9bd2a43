"""Measures Aquifer and other systems with the same saves in one run, and prints a table with the ratios of that run.

Starts Redis, etcd and PostgreSQL where they are installed, each with durable writes, in a temporary folder.
CouchDB and Kinto are measured where an operator has them. Aquifer is the installation of FOLDER/ready.json.
"""

import argparse
import base64
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
WORKLOADS = ["w1a:1", "w1a:16", "w1b:16"]
BATCH = 200
IDLE_DEVICES = 1000


def told(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Processes:
    """A process and all that it started: their use of the machine, from /proc."""

    def __init__(self, root):
        self.root = root

    def all(self):
        parents = {}
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError, ValueError):
                parents.setdefault(int(self.stat(int(name))[1]), []).append(int(name))
        found, waiting = [], [self.root]
        while waiting:
            found.append(waiting.pop())
            waiting += parents.get(found[-1], [])
        return found

    @staticmethod
    def stat(pid):
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()

    def look(self):
        """Seconds of processor time and bytes written, those of ended children included, and resident bytes."""
        seconds = written = memory = 0
        for pid in self.all():
            with contextlib.suppress(OSError):
                seconds += sum(int(field) for field in self.stat(pid)[11:15]) / TICKS
                with open(f"/proc/{pid}/statm") as file:
                    memory += int(file.read().split()[1]) * PAGE
                with open(f"/proc/{pid}/io") as file:
                    written += int(next(line for line in file if line.startswith("write_bytes")).split()[1])
        return seconds, written, memory


class System:
    """A system to compare with; `run` gives records a second, p50 in milliseconds and the number of records."""

    name, processes = "", None

    def measure(self, workload, seconds):
        before = self.processes.look() if self.processes else None
        rate, p50, count = self.run(workload, seconds)
        # Not one answer, not even after the run's time.
        if not rate:
            return None
        figures = {"recordsPerSecond": rate, "p50ms": p50}
        if before and count:
            after = self.processes.look()
            figures |= {"processorSeconds": (after[0] - before[0]) / count, "writtenBytes": (after[1] - before[1]) / count}
            figures |= {"memoryMB": after[2] / 1048576}
        return figures

    def listen(self, count):
        """Opens connections of devices that wait for a change; None: not offered here."""

    def idle(self, seconds):
        """Processor seconds an hour and megabytes that idle devices take."""
        before = self.processes.look() if self.processes else None
        devices = before and self.listen(IDLE_DEVICES)
        if not devices:
            return None
        time.sleep(1)
        start = self.processes.look()
        time.sleep(seconds)
        end = self.processes.look()
        for device in devices:
            device.close()
        return {"processorSecondsAnHour": (end[0] - start[0]) * 3600 / seconds, "memoryMB": (end[2] - before[2]) / 1048576}


def streams(host, port, request, count):
    """Connections that have sent a request and got the beginning of its answer."""
    devices = []
    for _ in range(count):
        device = socket.create_connection((host, port), timeout=10)
        device.sendall(request)
        if b" 200 " not in device.recv(4096).split(b"\r\n")[0]:
            return None
        devices.append(device)
    return devices


class Generated(System):
    """A system whose workloads aquifer-load sends over HTTP."""

    def __init__(self, generator, url, arguments=(), environment=None):
        self.command = [generator, "--url", url, *arguments]
        self.environment = os.environ | (environment or {})

    def run(self, workload, seconds):
        command = [*self.command, "--workload", workload, "--seconds", str(seconds), "--batch", str(BATCH), "--json", "-"]
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode and not done.stdout:
            raise SystemExit(f"peers.py: {self.name}: {done.stderr.decode()[-600:]}")
        entry = json.loads(done.stdout)["workloads"][0]
        if entry.get("firstError"):
            raise SystemExit(f"peers.py: {self.name}: {entry['firstError'][:600]}")
        figures = entry["parts"][0]["median"]
        rate = figures["recordsPerSecond"]
        # Warming up is half a second, or a quarter of a shorter run.
        return rate, figures["p50ms"], rate * (seconds + min(0.5, seconds / 4))


class Aquifer(Generated):
    name = "Aquifer"

    def __init__(self, generator, ready, root):
        super().__init__(generator, ready["gateway"], environment={"AQUIFER_OPERATOR_TOKEN": ready["operatorToken"]})
        self.ready, self.processes = ready, Processes(root)

    def call(self, path, body):
        request = urllib.request.Request(f"{self.ready['gateway']}/admin/1/{path}", json.dumps(body).encode())
        request.add_header("Authorization", f"Bearer {self.ready['operatorToken']}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def listen(self, count):
        container = "iCloud.org.example.peers"
        self.call("containers", {"container": container})
        # A user may have 1024 devices in the benchmark's installation.
        token = self.call("users", {"name": f"peers-{os.getpid()}"})["webAuthToken"]
        place = urllib.parse.urlsplit(self.ready["notifier"])
        head = f"GET /mirror/1/{container}/development/pings HTTP/1.1\r\nHost: {place.hostname}\r\nAuthorization: Bearer {token}\r\n"
        return streams(place.hostname, place.port, f"{head}Accept: text/event-stream\r\n\r\n".encode(), count)


class Redis(System):
    name = "Redis Streams"

    def __init__(self, folder, stack):
        self.port = free_port()
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        child = start([*command, "--appendonly", "yes", "--appendfsync", "always", "--maxclients", "2000"], stack)
        self.processes = Processes(child.pid)
        until(self.answers, "redis-server answers")
        self.text = "x" * 1000

    def answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(100) == b"+PONG\r\n"
        return False

    def benchmark(self, clients, count, pipeline, *command):
        done = subprocess.run(
            ["redis-benchmark", "-p", str(self.port), "-c", str(clients), "-n", str(count), "-P", str(pipeline), "-r", "16", "--csv", *command],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300,
        )  # fmt: skip
        lines = [line.strip('"').split('","') for line in done.stdout.decode().splitlines()]
        figures = dict(zip(lines[0], lines[-1])) if len(lines) > 1 else {}
        return (float(figures["rps"]), float(figures["p50_latency_ms"])) if figures else None

    def run(self, workload, seconds):
        clients, pipeline = int(workload.split(":")[1]), BATCH if workload.startswith("w1b") else 1
        save = ("XADD", "zone-__rand_int__", "*", "record", self.text)
        # The number of requests is what can be chosen: so many as one short run promises.
        trial = clients * pipeline * 20
        rate, _ = self.benchmark(clients, trial, pipeline, *save)
        count = max(trial, int(rate * seconds))
        rate, p50 = self.benchmark(clients, count, pipeline, *save)
        return rate, p50, count + trial

    def listen(self, count):
        devices = []
        for _ in range(count):
            device = socket.create_connection(("127.0.0.1", self.port), timeout=10)
            device.sendall(b"XREAD BLOCK 0 STREAMS quiet $\r\n")
            devices.append(device)
        return devices


class Etcd(Generated):
    name = "etcd over HTTP"

    def __init__(self, generator, folder, stack):
        self.port, peer = free_port(), free_port()
        url = f"http://127.0.0.1:{self.port}"
        super().__init__(generator, url, ["--peer", "etcd"])
        command = ["etcd", "--data-dir", f"{folder}/etcd", "--listen-client-urls", url, "--advertise-client-urls", url]
        command += ["--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"]
        command += ["--initial-cluster", f"default=http://127.0.0.1:{peer}", "--max-txn-ops", str(BATCH), "--log-level", "error"]
        self.processes = Processes(start(command, stack).pid)
        until(lambda: answers(f"{url}/health"), "etcd answers")

    def listen(self, count):
        key = base64.b64encode(b"quiet").decode()
        body = json.dumps({"create_request": {"key": key}})
        head = f"POST /v3/watch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return streams("127.0.0.1", self.port, (head + body).encode(), count)


class PostgreSQL(System):
    """pgbench on a cluster of its own, as a point of comparison for all of the benchmark."""

    name = "PostgreSQL over its socket"

    def __init__(self, seconds):
        done = subprocess.run([HERE / "postgres", "--seconds", str(seconds), "--runs", "1", "--costs", HERE / "peers.py"], stdout=subprocess.PIPE)
        self.figures = json.loads(done.stdout) if done.returncode == 0 else {}

    def measure(self, workload, seconds):
        found = next((limit for limit in self.figures.get("limits", []) if limit["workload"] == workload), None)
        return found and {key: value for key, value in found.items() if key not in ("name", "workload")}

    def idle(self, seconds):
        return None


class Remote(Generated):
    """CouchDB or Kinto at an operator's address."""

    def __init__(self, generator, name, protocol, url):
        place = urllib.parse.urlsplit(url)
        account = f"{urllib.parse.unquote(place.username or '')}:{urllib.parse.unquote(place.password or '')}"
        self.authorization = "Basic " + base64.b64encode(account.encode()).decode()
        self.url, self.name = f"http://{place.hostname}:{place.port or 80}", name
        super().__init__(generator, self.url, ["--peer", protocol], {"PEER_AUTHORIZATION": self.authorization})
        for path in self.places(protocol):
            self.put(path)

    @staticmethod
    def places(protocol):
        if protocol == "couchdb":
            return [f"bench-{client}" for client in range(16)]
        return ["v1/buckets/bench"] + [f"v1/buckets/bench/collections/zone-{client}" for client in range(16)]

    def put(self, path):
        request = urllib.request.Request(f"{self.url}/{path}", method="PUT", headers={"Authorization": self.authorization})
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            # It is there already.
            if error.code != 412:
                raise SystemExit(f"peers.py: {self.name}: PUT {path}: {error.code} {error.read().decode()[:300]}")

    def idle(self, seconds):
        return None


def start(command, stack):
    # So that it ends with this program, however that ends.
    child = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end():
        child.terminate()
        child.wait()

    stack.callback(end)
    return child


def answers(url):
    try:
        urllib.request.urlopen(url, timeout=5).close()
        return True
    except OSError:
        return False


def until(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"peers.py: {what}: not within {seconds} s")
        time.sleep(0.1)


def median(runs):
    runs = [run for run in runs if run]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]} if runs else None


def number(value, digits=0):
    return "" if value is None else f"{value:,.{digits}f}".replace(",", " ")


def table(report):
    figures = {system["system"]: system for system in report["systems"]}
    own = figures["Aquifer"]["workloads"]["w1a:16"]["recordsPerSecond"]
    rows = [
        ["system", *[f"{workload} records/s" for workload in WORKLOADS], "w1a:16 p50 ms", "Aquifer's w1a:16 ÷ its",
         "processor s for a million saves", "GB written for them", "memory after, MB",
         "processor s an hour of 1000 idle devices", "their memory, MB"],
        ["---"] + ["--:"] * 10,
    ]  # fmt: skip
    for name, system in figures.items():
        workloads = system["workloads"]
        single, idle = workloads.get("w1a:16") or {}, system["idle"] or {}
        cost, written = single.get("processorSeconds"), single.get("writtenBytes")
        rows.append([
            name, *[number((workloads.get(workload) or {}).get("recordsPerSecond")) for workload in WORKLOADS],
            number(single.get("p50ms"), 2), number(own / single["recordsPerSecond"], 2) if single else "",
            number(cost and cost * 1e6), number(written and written / 1000, 1), number(single.get("memoryMB")),
            number(idle.get("processorSecondsAnHour")), number(idle.get("memoryMB"), 1),
        ])  # fmt: skip
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    notes = [
        f"{report['cores']} cores, load {report['load']} before; {report['command']}.",
        "aquifer-load saves to Aquifer, etcd, CouchDB and Kinto over HTTP, redis-benchmark to Redis and pgbench to PostgreSQL over their own protocols.",
        "Every system syncs before it answers. Stores know no users, change tags, sharing or devices. Costs leave out the generator.",
        *[f"Left out: {name}." for name in report["leftOut"]],
    ]
    return "\n".join(lines) + "\n\n" + "\n\n".join(notes) + "\n"


def measure(options):
    with open(f"{options.folder}/ready.json") as file:
        ready = json.load(file)
    generator, left_out = options.generator, []
    load = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        folder = f"{options.folder}/peers"
        os.makedirs(folder, exist_ok=True)
        systems = [Aquifer(generator, ready, options.root)]
        for program, make in (("redis-server", lambda: Redis(folder, stack)), ("etcd", lambda: Etcd(generator, folder, stack))):
            if shutil.which(program):
                systems.append(make())
            else:
                left_out.append(f"{program}, which is not installed (Debian has it)")
        for name, protocol, url in (("CouchDB", "couchdb", options.couchdb), ("Kinto", "kinto", options.kinto)):
            if url:
                systems.append(Remote(generator, name, protocol, url))
        found = {system.name: {workload: [] for workload in WORKLOADS} for system in systems}
        postgres = PostgreSQL.name
        found[postgres] = {workload: [] for workload in WORKLOADS}
        for run in range(1, options.runs + 1):
            # One after the other in each run, so that a busy minute falls on all.
            for system in [*systems, PostgreSQL(options.seconds)]:
                told(f"{system.name} ({run} of {options.runs})")
                for workload in WORKLOADS:
                    found[system.name][workload].append(system.measure(workload, options.seconds))
        idle = {}
        for system in systems:
            told(f"{IDLE_DEVICES} idle devices at {system.name}")
            idle[system.name] = system.idle(2 * options.seconds)
        if not any(found[postgres]["w1a:16"]):
            del found[postgres]
            left_out.append("PostgreSQL, which is not installed (Debian has it) or does not start")
    return {
        "command": options.command, "cores": os.cpu_count(), "load": round(load, 1), "leftOut": left_out,
        "systems": [
            {"system": name, "workloads": {workload: median(runs) for workload, runs in workloads.items()}, "idle": idle.get(name)}
            for name, workloads in found.items()
        ],
    }  # fmt: skip


def tell(options, report, page):
    """Prints the page, and writes the files that were asked for."""
    print(page, end="")
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    if options.markdown:
        Path(options.markdown).write_text(page)


def main():
    if sys.argv[1:2] == ["--look"]:
        print(json.dumps(Processes(int(sys.argv[2])).look()))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="has ready.json of an installation")
    parser.add_argument("--root", type=int, required=True, help="the process that started the installation")
    parser.add_argument("--generator", required=True, help="aquifer-load")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--couchdb", help="http://USER:PASSWORD@HOST:PORT")
    parser.add_argument("--kinto", help="http://USER:PASSWORD@HOST:PORT")
    parser.add_argument("--command", default="deploy/bench --peers")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    report = measure(options)
    tell(options, report, table(report))


if __name__ == "__main__":
    main()
