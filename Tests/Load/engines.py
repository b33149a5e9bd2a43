"""Measures the same workloads with shards in files and in PostgreSQL, in turn, and prints the ratios of that run.

Makes a PostgreSQL cluster of its own from Debian's package in FOLDER; with --standby also a second one, for which every commit waits;
with --round-trip behind a wire that delays every packet, as on another machine.
"""

import argparse
import contextlib
import json
import os
import pwd
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from peers import start, tell, told, until  # noqa: E402

ENGINES = ["SQLite", "PostgreSQL"]
WORKLOADS = ["w1a:1", "w1a:16", "w1b:16", "w1c:16", "w2:8", "w3:100", "w4:2"]


class Failure(SystemExit):
    def __init__(self, text):
        super().__init__(f"engines.py: {text}")


class Network:
    """A host for the database, and a wire to it that delays packets. The switch of the tests with network faults makes both."""

    def __init__(self, folder, stack, microseconds):
        program = f"{folder}/network"
        os.makedirs(folder)
        subprocess.run(["cc", "-O2", "-o", program, str(HERE.parent / "Processes/network.c")], check=True)
        # The tests' networks have other numbers.
        command = ["setpriv", "--pdeathsig", "TERM", program, "1", "198.19.250", "here", "database"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(self.end)
        hosts = {words[0]: words[1:] for words in (self.process.stdout.readline().split() for _ in range(2)) if len(words) == 3}
        if "database" not in hosts:
            raise Failure("no network: --round-trip takes root and /dev/net/tun")
        self.address, self.space = hosts["database"]
        self.process.stdin.write(f"link here database {microseconds / 2000} 0 0\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ok\n":
            raise Failure("the network takes no delay")

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def round_trip(self):
        """Microseconds, of the packets that open a connection."""
        times = []
        for _ in range(200):
            start = time.perf_counter()
            socket.create_connection((self.address, 5432), timeout=10).close()
            times.append((time.perf_counter() - start) * 1e6)
        return statistics.median(times)


class Cluster:
    """A private cluster, and a synchronous standby if need be; reached by sockets in the folder, or over a network."""

    def __init__(self, folder, stack, has_standby, network=None):
        self.folder, self.stack, self.network = folder, stack, network
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not versions:
            raise Failure("PostgreSQL is not installed: deploy/install postgres")
        self.bin = versions[-1]
        # Again the signal for the end of this program: another account loses it.
        account = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig", "TERM"]
        self.account = account if os.getuid() == 0 else []
        os.makedirs(folder)
        if self.account:
            os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
            # The account passes through folders that are their owner's alone.
            for place in list(Path(folder).parents)[:2]:
                os.chmod(place, 0o711)
        self.call("initdb", "--auth=trust", "--username=aquifer", "--encoding=UTF8", "--locale=C", "--pgdata", f"{folder}/data")
        if network:
            with open(f"{folder}/data/pg_hba.conf", "a") as file:
                file.write("host all all samenet trust\n")
        self.serve("data", "primary")
        if has_standby:
            self.call("pg_basebackup", "--host", folder, "--username", "aquifer", "--pgdata", f"{folder}/standby", "--write-recovery-conf")
            self.serve("standby", "second")
            for command in ("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"):
                self.query(command)
            until(lambda: self.query("SELECT sync_state FROM pg_stat_replication") == "sync", "the standby follows")

    def serve(self, data, socket):
        place = self.folder if socket == "primary" else f"{self.folder}/{socket}"
        if socket != "primary":
            subprocess.run([*self.account, "mkdir", place], check=True)
        host = self.network.address if self.network and socket == "primary" else ""
        options = ["-c", f"listen_addresses={host}", "-c", f"unix_socket_directories={place}", "-c", "shared_buffers=128MB"]
        space = ["nsenter", f"--net={self.network.space}"] if self.network else []
        start([*space, *self.account, str(self.bin / "postgres"), "-D", f"{self.folder}/{data}", *options], self.stack)
        ready = [str(self.bin / "pg_isready"), "--quiet", "--host", place, "--username", "aquifer"]
        until(lambda: subprocess.run(ready).returncode == 0, "PostgreSQL answers")

    def call(self, program, *arguments):
        done = subprocess.run([*self.account, str(self.bin / program), *arguments], cwd=self.folder, capture_output=True)
        if done.returncode:
            raise Failure(f"{program}: {done.stderr.decode()[-600:]}")
        return done.stdout.decode().strip()

    def query(self, text):
        return self.call("psql", "--host", self.folder, "--username", "aquifer", "--no-align", "--tuples-only", "--command", text, "postgres")

    @property
    def version(self):
        return self.query("SHOW server_version").split()[0]

    @property
    def address(self):
        host = self.network.address if self.network else self.folder
        return f"host={host} user=aquifer dbname=postgres"


class Installation:
    def __init__(self, binaries, folder, stack, options=()):
        ready = Path(folder, "ready.json")
        os.makedirs(folder)
        command = [f"{binaries}/aquifer", "dev", "--data", f"{folder}/store", "--http-port", "0", "--ping-port", "0", "--workers", "1"]
        command += ["--user-devices", "1024", "--connections-per-address", "10000", "--ready-file", str(ready), *options]
        process = start(command, stack)

        def is_ready():
            if process.poll() is not None:
                raise Failure(f"aquifer dev ended with {process.returncode}: {' '.join(command)}")
            return ready.exists() and ready.stat().st_size > 0

        until(is_ready, "the installation is ready")
        self.generator, self.ready = f"{binaries}/aquifer-load", json.loads(ready.read_text())

    def measure(self, workload, seconds):
        """The figures of each part of a workload, by the part's name."""
        command = [self.generator, "--url", self.ready["gateway"], "--workload", workload, "--seconds", str(seconds), "--json", "-"]
        environment = os.environ | {"AQUIFER_OPERATOR_TOKEN": self.ready["operatorToken"]}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            raise Failure(f"{workload}: {(done.stderr or done.stdout).decode()[-600:]}")
        return {part.get("part", ""): part["median"] for part in json.loads(done.stdout)["workloads"][0]["parts"]}


def measured(options, stack):
    """PostgreSQL's version, the round trip to it, and all figures: engine, then workload, then part, then name; medians of the runs."""
    network = Network(f"{options.folder}/network", stack, options.round_trip) if options.round_trip else None
    cluster = Cluster(f"{options.folder}/cluster", stack, options.standby, network)
    round_trip = network and network.round_trip()
    records = ["--records", cluster.address] + ([] if options.standby else ["--allow-asynchronous"])
    installations = {
        "SQLite": Installation(options.binaries, f"{options.folder}/files", stack),
        "PostgreSQL": Installation(options.binaries, f"{options.folder}/database", stack, records),
    }
    found = {engine: {workload: [] for workload in options.workloads} for engine in ENGINES}
    for run in range(options.runs):
        told(f"run {run + 1} of {options.runs}")
        for workload in options.workloads:
            # In turn, so that a busy moment falls on both.
            for engine in ENGINES if run % 2 == 0 else reversed(ENGINES):
                found[engine][workload].append(installations[engine].measure(workload, options.seconds))
    return cluster.version, round_trip, {
        engine: {workload: median(runs) for workload, runs in workloads.items()} for engine, workloads in found.items()
    }  # fmt: skip


def median(runs):
    return {
        part: {name: statistics.median(run[part][name] for run in runs) for name in figures} for part, figures in runs[0].items()
    }  # fmt: skip


def judged(figures, floors, round_trip):
    """Each line of the floors with both figures, what counts of them, and whether that is enough.

    A line with a `roundTrip` has the floor of runs with that one, in which the other lines have none.
    """
    chosen = {}
    for line in floors:
        if line.get("roundTrip", round_trip) == round_trip:
            floor = line["floor"] if line.get("roundTrip") == round_trip else None
            chosen[tuple(line[key] for key in ("workload", "part", "figure", "counts"))] = line | {"floor": floor}
    lines = []
    for line in chosen.values():
        pair = [figures[engine].get(line["workload"], {}).get(line["part"], {}).get(line["figure"]) for engine in ENGINES]
        if None in pair:
            continue
        values = {"ratio": pair[1] / pair[0] if pair[0] else 0, "difference": pair[1] - pair[0], "own": pair[1], "own rate": pair[1]}
        value = values[line["counts"]]
        is_more_better = line["counts"] in ("ratio", "own rate")
        is_enough = line["floor"] is None or (value >= line["floor"] if is_more_better else value <= line["floor"])
        lines.append(line | {"sqlite": pair[0], "postgresql": pair[1], "value": value, "isEnough": is_enough})
    return lines


def table(report):
    rows = [["", "SQLite", "PostgreSQL", "what counts", "", "floor", ""], ["---", "--:", "--:", "---", "--:", "--:", "---"]]
    for line in report["lines"]:
        digits = 0 if line["figure"] == "recordsPerSecond" else 2
        name = " ".join(filter(None, [line["workload"], line["part"], line["figure"]]))
        rows.append([
            name, *[f"{line[key]:,.{digits}f}".replace(",", " ") for key in ("sqlite", "postgresql")], line["counts"],
            f"{line['value']:.2f}", "" if line["floor"] is None else f"{line['floor']}", "" if line["isEnough"] else "below its floor",
        ])  # fmt: skip
    standby = "with a synchronous standby" if report["standby"] else "without a standby"
    place = f"behind a wire of {report['roundTrip']:.0f} µs a round trip" if report["roundTrip"] else "on the same machine"
    note = f"{report['cores']} cores, load {report['load']} before; PostgreSQL {report['version']} {standby} {place}; {report['command']}."
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + f"\n\n{note}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="where the cluster and the installations are made")
    parser.add_argument("--binaries", required=True, help="the folder of the release")
    parser.add_argument("--floors", required=True, help="a list of lines: workload, part, figure, counts (ratio, difference, own, own rate), floor, roundTrip")
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--standby", action="store_true")
    parser.add_argument("--round-trip", type=int, metavar="MICROSECONDS", help="takes root and /dev/net/tun")
    parser.add_argument("--command", default="deploy/bench --engine both")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    with contextlib.ExitStack() as stack:
        version, round_trip, figures = measured(options, stack)
    report = {
        "command": options.command, "cores": os.cpu_count(), "load": load, "standby": options.standby, "version": version,
        "roundTrip": round_trip, "figures": figures,
        "lines": judged(figures, json.loads(Path(options.floors).read_text()), options.round_trip),
    }  # fmt: skip
    tell(options, report, table(report))
    sys.exit(0 if all(line["isEnough"] for line in report["lines"]) else 1)


main()
