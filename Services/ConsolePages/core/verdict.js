// Judges the installation's status as `aquifer status` does: all is well, or the findings with their remedies.

import { bytes, count, duration, plural } from "./format.js";

const LATE_EXPORT = 60;
const MANY_PINGS = 10000;
const LONG_QUEUE = 2000;
const LEAST_FREE = 0.1;

/** `status` is the answer to `GET status`. `{isWell, sentence, findings: [{what, remedy}], notes}`, gravest first. */
export function verdict(status, now = Date.now()) {
  const members = status.members ?? [];
  const workers = status.workers ?? [];
  const { count: all = 0, held = 0, neededFormat } = status.shards ?? {};
  const findings = [
    ...ofProcesses(members, workers, all - held, neededFormat),
    ...workers.flatMap(ofWorker),
    ...ofExports(workers, now),
  ];
  const heldBack = sum(workers, "quarantined");
  const notes = heldBack ? [`${plural(heldBack, "object")} ${heldBack === 1 ? "is" : "are"} held back`] : [];
  const processes = members.length === 1 ? "1 process" : `${members.length} processes`;
  const sentence = findings.length
    ? `${findings[0].what}.`
    : `${processes}, ${held} of ${all} shards held by ${plural(workers.length, "worker")}.`;
  return { isWell: findings.length === 0, sentence, findings, notes };
}

export const sum = (rows, key) => rows.reduce((total, row) => total + (row[key] ?? 0), 0);

function ofProcesses(members, workers, unheld, neededFormat) {
  const found = workers
    .filter((worker) => worker.silent)
    .map((worker) => ({
      what: `${worker.name} does not answer`,
      remedy: "If it does not answer soon, end that process (kill -9): other workers then open its shards.",
    }));
  if (!workers.length) {
    found.push({
      what: "There is no worker",
      remedy: "Start aquifer-worker, or read its log: clients can neither save nor import.",
    });
  } else if (unheld > 0) {
    const which = neededFormat ? ` of a release that knows the stored format ${neededFormat}` : "";
    found.push({
      what: `${plural(unheld, "shard")} ${unheld === 1 ? "has" : "have"} no worker`,
      remedy: `Wait for a worker${which} to become ready, or start one.`,
    });
  }
  const needed = {
    notifier: "devices get no pings and find changes only when they ask",
    gateway: "clients reach no server",
  };
  for (const [role, consequence] of Object.entries(needed)) {
    if (members.some((member) => member.role === role)) continue;
    found.push({ what: `There is no ${role}`, remedy: `Start aquifer-${role}, or read its log: ${consequence}.` });
  }
  const refused = workers.filter((worker) => worker.refused);
  for (const worker of refused) {
    found.push({
      what: `${worker.name} takes no work: ${worker.refused}`,
      remedy: "Give it the folder with this installation's data.",
    });
  }
  for (const member of members) {
    if (member.ready !== false || refused.some((worker) => worker.name === member.name)) continue;
    found.push({ what: `${member.name} is not ready`, remedy: "Its log, and its address /readyz, say why." });
  }
  return found;
}

function ofWorker(worker) {
  const found = [];
  const problems = new Map();
  for (const { problem, shard } of worker.problems ?? [])
    problems.set(problem, [...(problems.get(problem) ?? []), shard]);
  for (const [problem, shards] of problems) {
    found.push({
      what: `${shards.length === 1 ? "Shard" : "Shards"} ${shards.join(", ")} of ${worker.name}: ${problem}`,
      remedy: `If it stays, the log of ${worker.name} says why.`,
    });
  }
  if (worker.diskSize > 0 && worker.diskFree < LEAST_FREE * worker.diskSize) {
    found.push({
      what: `${worker.name} has ${bytes(worker.diskFree)} of disk left`,
      remedy: "Make room: the worker refuses saves when the disk is full.",
    });
  }
  if (worker.longestQueue >= LONG_QUEUE) {
    found.push({
      what: `${count(worker.longestQueue)} writes wait at one shard of ${worker.name}`,
      remedy: "Its disk is too slow, or one user sends too much.",
    });
  }
  if (worker.pendingPings >= MANY_PINGS) {
    found.push({
      what: `${count(worker.pendingPings)} pings wait at ${worker.name}`,
      remedy: "A notifier or gateway does not read them: see its log.",
    });
  }
  return found;
}

function ofExports(workers, now) {
  const oldest = Math.min(...workers.map((worker) => worker.oldestWaitingAt ?? Infinity));
  const age = (now - oldest) / 1000;
  if (!(age >= LATE_EXPORT)) return [];
  const waiting = sum(workers, "waitingTransactions");
  return [
    {
      what:
        `${plural(waiting, "saved transaction")} ${waiting === 1 ? "waits for its" : "wait for their"} export, ` +
        `the oldest for ${duration(age)}`,
      remedy: "Sync shows the stores with the most to export, and its events the reasons.",
    },
  ];
}
