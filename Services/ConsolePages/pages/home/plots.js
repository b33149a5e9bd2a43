// The plots of the last hour.

import { h } from "../../core/dom.js";
import { bytes, duration, figure } from "../../core/format.js";
import * as live from "../../core/live.js";
import { chart } from "../../parts/chart.js";

const { d3 } = globalThis;
/** Codes of errors with a line of their own. */
const SHOWN_CODES = 3;

const rate = (value) => `${figure(value)}/s`;
const milliseconds = (value) => duration(value / 1000);

/** `[title, format, [[label, role, value]]]` */
const PLOTS = [
  [
    "Requests",
    rate,
    [
      ["records", "gateway", "record_requests_per_second"],
      ["objects", "gateway", "object_requests_per_second"],
      ["other", "gateway", "other_requests_per_second"],
    ],
  ],
  [
    "Latency of the record plane",
    milliseconds,
    [
      ["p50", "gateway", "record_latency_p50_ms"],
      ["p99", "gateway", "record_latency_p99_ms"],
    ],
  ],
  [
    "Latency of the object plane",
    milliseconds,
    [
      ["p50", "gateway", "object_latency_p50_ms"],
      ["p99", "gateway", "object_latency_p99_ms"],
    ],
  ],
  ["Commits", rate, [["", "worker", "commits_per_second"]]],
  ["Writes in a commit", figure, [["", "worker", "group_size"]]],
  ["Sync lag", milliseconds, [["oldest save", "worker", "sync_lag_ms"]]],
  ["Pings", rate, [["", "notifier", "pings_per_second"]]],
  ["Listeners", figure, [["", "notifier", "listeners"]]],
  [
    "Queued writes",
    figure,
    [
      ["all", "worker", "queue_length"],
      ["longest", "worker", "longest_queue"],
    ],
  ],
  ["Errors by code", rate, null],
  [
    "Disk",
    bytes,
    [
      ["data", "worker", "database_bytes"],
      ["left to workers", "worker", "disk_free_bytes"],
      ["to the share service", "share", "disk_free_bytes"],
    ],
  ],
  [
    "Memory",
    bytes,
    [
      ["gateways", "gateway", "memory_bytes"],
      ["workers", "worker", "memory_bytes"],
      ["notifiers", "notifier", "memory_bytes"],
      ["share service", "share", "memory_bytes"],
    ],
  ],
];

export function plots() {
  const charts = PLOTS.map(([title, format, lines]) =>
    chart(title, lines ? () => lines.map(read) : errorLines, format),
  );
  const view = h(
    "section",
    { class: "plots grid", "aria-label": "The last hour" },
    charts.map((each) => each.view),
  );
  return { view, update };

  function update() {
    for (const each of charts) each.update();
  }
}

const read = ([label, role, value]) => [label, live.series(role, value)];

/** The answers with an error, by their codes: the three most frequent ones, and the rest together. */
function errorLines() {
  const codes = live
    .names()
    .map((name) => /^gateway\/(errors_(\d+)_.*)$/.exec(name))
    .filter(Boolean)
    .map(([, value, code]) => ({ code, ...live.series("gateway", value) }))
    .sort((one, other) => d3.sum(other.values) - d3.sum(one.values));
  const lines = codes.slice(0, SHOWN_CODES).map(({ code, ...series }) => [code, withZeros([series])]);
  if (codes.length > SHOWN_CODES) lines.push(["others", withZeros(codes.slice(SHOWN_CODES))]);
  return lines.length ? lines : [["", withZeros([])]];
}

/** The sum of series that have no value for a second without an error. */
function withZeros(several) {
  const { times } = live.series("gateway", "requests_per_second");
  const totals = new Map();
  for (const series of several) {
    for (const [index, time] of series.times.entries()) {
      totals.set(time, (totals.get(time) ?? 0) + series.values[index]);
    }
  }
  return { times, values: times.map((time) => totals.get(time) ?? 0) };
}
