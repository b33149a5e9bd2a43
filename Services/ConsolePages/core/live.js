// The live samples: one event stream for the whole console, which resumes by itself after a lost connection.

import { get } from "./api.js";

const KEPT = 3600;
const RECENT = 90;
const listeners = new Set();
let source = null;
let retry = 0;
let latest = null;
let isPastRead = false;
/** By `kind/value`, over all processes of the kind: an hour of seconds since 1970 and values, ascending. */
let hour = new Map();
/** By `process/value`: the values of the last minute and a half. */
let recent = new Map();

export const last = () => latest;
export const series = (kind, value) => hour.get(`${kind}/${value}`) ?? { times: [], values: [] };
export const recentValues = (process, value) => recent.get(`${process}/${value}`) ?? [];
export const names = () => [...hour.keys()];

/** Calls `listener(sample)` for each sample, and `listener(null)` when the stream stops. */
export function follow(listener) {
  listeners.add(listener);
  if (!source) open();
  return () => listeners.delete(listener);
}

export function stop() {
  clearTimeout(retry);
  source?.close();
  source = null;
  latest = null;
  isPastRead = false;
  hour = new Map();
  recent = new Map();
}

function open() {
  source = new EventSource("./api/live");
  source.addEventListener("sample", (event) => take(event.data));
  source.addEventListener("open", readPast);
  source.addEventListener("error", () => {
    tell(null);
    // A browser ends a stream for good when the answer is an error.
    if (source?.readyState === EventSource.CLOSED) retry = setTimeout(reopen, 2000);
  });
}

/** Opens the stream again, unless the session has ended: an ordinary call tells, which a stream does not. */
async function reopen() {
  const error = await get("sample").then(
    () => null,
    (refused) => refused,
  );
  if (source && error?.status !== 401) open();
}

function tell(sample) {
  for (const listener of listeners) listener(sample);
}

/** How values of several processes become one: the worst latency, the fullest disk, else the sum. */
function joined(name, first, second) {
  if (first === null || first === undefined) return second;
  if (second === null || second === undefined) return first;
  if (/free/.test(name)) return Math.min(first, second);
  return /p50|p9|lag|oldest|seconds|size|age/.test(name) ? Math.max(first, second) : first + second;
}

function take(text) {
  let sample;
  try {
    sample = JSON.parse(text);
  } catch {
    return;
  }
  const totals = new Map();
  for (const process of sample.processes ?? []) {
    for (const [name, value] of Object.entries(process.values ?? {})) {
      const key = `${process.role}/${name}`;
      totals.set(key, joined(name, totals.get(key), value));
      const values = recent.get(`${process.name}/${name}`) ?? [];
      values.push(value);
      if (values.length > RECENT) values.shift();
      recent.set(`${process.name}/${name}`, values);
    }
  }
  for (const [key, value] of totals) add(key, sample.at / 1000, value);
  latest = sample;
  tell(sample);
}

function add(key, time, value) {
  const known = hour.get(key) ?? { times: [], values: [] };
  hour.set(key, known);
  if (known.times.at(-1) >= time) return;
  known.times.push(time);
  known.values.push(value);
  if (known.times.length > KEPT * 1.1) {
    known.times.splice(0, known.times.length - KEPT);
    known.values.splice(0, known.values.length - KEPT);
  }
}

/** Puts the server's memory of the last hour before what was seen here. */
async function readPast() {
  if (isPastRead) return;
  isPastRead = true;
  try {
    const { start, step, series: given = {} } = await get("history");
    const totals = new Map();
    for (const [key, values] of Object.entries(given)) {
      const [process, name] = key.split("/");
      const kind = kindOf(process);
      const total = totals.get(`${kind}/${name}`) ?? [];
      for (const [index, value] of values.entries()) total[index] = joined(name, total[index], value);
      totals.set(`${kind}/${name}`, total);
    }
    for (const [key, values] of totals) prepend(key, values, start / 1000, step / 1000);
    tell(latest);
  } catch {
    isPastRead = false;
  }
}

function prepend(key, values, start, step) {
  const known = hour.get(key) ?? { times: [], values: [] };
  const first = known.times[0] ?? Infinity;
  const times = [];
  const kept = [];
  values.forEach((value, index) => {
    const time = start + index * step;
    if (time >= first || value === null || value === undefined) return;
    times.push(time);
    kept.push(value);
  });
  hour.set(key, { times: times.concat(known.times), values: kept.concat(known.values) });
}

/** A process that has left is known by its name alone, such as `worker-3`. */
function kindOf(process) {
  const found = latest?.processes?.find((entry) => entry.name === process);
  return found?.role ?? process.replace(/-?\d*$/, "");
}
