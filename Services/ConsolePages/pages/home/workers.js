// The processes: what each one does now, and which came or went while the page was open.

import { h, replace } from "../../core/dom.js";
import { bytes, count, duration, figure } from "../../core/format.js";
import * as live from "../../core/live.js";
import { badge, table } from "../../parts/parts.js";
import { spark } from "../../parts/chart.js";
import { natural } from "./shards.js";

const SHOWN = 12;

export function workerTable() {
  const content = h("div");
  const news = h("ul", { class: "news small soft", "aria-live": "polite", "aria-label": "Joined and left" });
  const more = h("button", { class: "button quiet", type: "button", hidden: true, on: { click: () => showAll() } });
  const view = h("section", { class: "card bare" }, h("header", null, h("h2", null, "Processes"), more), content, news);
  let members = new Map();
  let known = null;
  let limit = SHOWN;
  let latest = null;

  function setStatus(status) {
    members = new Map((status.workers ?? []).map((worker) => [worker.name, worker]));
    if (latest) update(latest);
  }

  function showAll() {
    limit = Infinity;
    update(latest);
  }

  function update(sample) {
    latest = sample;
    const rows = [...(sample.processes ?? [])].sort(
      (one, other) => natural(one.role, other.role) || natural(one.name, other.name),
    );
    tell(rows);
    const odd = rows.filter((row) => row.ready === false || members.get(row.name)?.problems?.length);
    const shown = [...odd, ...rows.filter((row) => !odd.includes(row))].slice(0, limit);
    more.hidden = shown.length === rows.length;
    replace(more, `Show all ${rows.length}`);
    replace(
      content,
      table(
        "Processes",
        COLUMNS,
        shown.map((row) => ({
          ...row,
          worker: members.get(row.name) ?? {},
          isSilent: sample.silent?.includes(row.name),
        })),
      ),
    );
  }

  function tell(rows) {
    const names = new Set(rows.map((row) => row.name));
    if (known) {
      const came = [...names].filter((name) => !known.has(name)).map((name) => `${name} joined`);
      const went = [...known].filter((name) => !names.has(name)).map((name) => `${name} left`);
      const now = new Date().toLocaleTimeString("en-GB");
      for (const words of [...came, ...went]) news.prepend(h("li", null, `${now}  ${words}`));
      while (news.children.length > 5) news.lastChild.remove();
    }
    known = names;
  }

  return { view, update, setStatus };
}

function stateOf({ ready, isSilent, worker }) {
  if (isSilent || worker.silent) return badge("silent", "bad");
  if (ready === false) return badge("not ready", "warn");
  return worker.problems?.length ? badge("trouble", "bad") : badge("ready", "good");
}

const COLUMNS = [
  ["Process", (row) => h("b", { class: "nowrap", title: row.version }, row.name)],
  ["State", stateOf],
  ["Requests", requests, { right: true }],
  ["Last 90 s", (row) => spark(live.recentValues(row.name, "requests_per_second"))],
  ["Memory", (row) => bytes(row.values?.memory_bytes), { right: true }],
  ["Processor", processor, { right: true }],
  ["Shards", (row) => row.values?.shards_open ?? "", { right: true }],
  ["Records", (row) => (row.worker.records === undefined ? "" : count(row.worker.records)), { right: true }],
  ["Queue", (row) => row.values?.queue_length ?? "", { right: true }],
  ["To export", toExport, { right: true }],
];

/** The share service has no requests of its own. */
function requests(row) {
  const rate = row.values?.requests_per_second;
  return rate === undefined ? "" : `${figure(rate)}/s`;
}

/** 100 % is one core. */
function processor(row) {
  const share = row.values?.processor_seconds_per_second;
  return share === undefined ? "" : `${figure(Math.round(share * 1000) / 10)} %`;
}

function toExport(row) {
  const waiting = row.values?.waiting_transactions;
  if (waiting === undefined) return "";
  const lag = row.values?.sync_lag_ms;
  return lag > 1000 ? `${count(waiting)} (${duration(lag / 1000)})` : count(waiting);
}
