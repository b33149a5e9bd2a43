// The plots of the last hour.

import { h } from "../../core/dom.js";
import { bytes, duration, figure } from "../../core/format.js";
import * as live from "../../core/live.js";
import { chart } from "../../parts/chart.js";

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
  ["Errors", rate, null],
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
  const charts = PLOTS.map(([title, format, lines]) => chart(title, lines ? lines.map(read) : errorLines(), format));
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

const read = ([label, role, value]) => [label, () => live.series(role, value)];

/** Answers of the client's and of the server's kind of error: each the sum of its codes. */
function errorLines() {
  return [
    ["4xx", /^gateway\/errors_4/],
    ["5xx", /^gateway\/errors_5/],
  ].map(([label, pattern]) => [label, () => added(pattern)]);
}

function added(pattern) {
  const totals = new Map();
  for (const name of live.names().filter((each) => pattern.test(each))) {
    const { times, values } = live.series(...name.split("/"));
    for (const [index, time] of times.entries()) totals.set(time, (totals.get(time) ?? 0) + values[index]);
  }
  const rows = [...totals].sort((one, other) => one[0] - other[0]);
  return { times: rows.map(([time]) => time), values: rows.map(([, value]) => value) };
}
