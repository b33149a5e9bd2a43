// Home: one sentence about the installation, the last hour, and who holds what.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { bytes, count, plural } from "../../core/format.js";
import * as live from "../../core/live.js";
import * as router from "../../core/router.js";
import * as state from "../../core/state.js";
import { sum, verdict } from "../../core/verdict.js";
import { button, card, empty, head, loading, place, trouble } from "../../parts/parts.js";
import { plots } from "./plots.js";
import { shardMap } from "./shards.js";
import { workerTable } from "./workers.js";

/** Milliseconds between two looks at the status, which asks every worker. */
const PAUSE = 5000;

export function show(outlet, _place, _query, signal) {
  return state.isOperator() ? showInstallation(outlet, signal) : showContainers(outlet, signal);
}

function showInstallation(outlet, signal) {
  const health = h("section", { class: "health", "aria-live": "polite", "aria-label": "Health" });
  const graphs = plots();
  const map = shardMap();
  const workers = workerTable();
  const rest = h("div", { class: "stack home" }, graphs.view, map.view, workers.view);
  replace(outlet, health, rest);
  let timer = 0;
  let shown = "";

  async function look() {
    try {
      const status = await get("status", undefined, { signal });
      if (signal.aborted) return;
      const drawn = JSON.stringify([verdict(status), sum(status.workers ?? [], "records")]);
      if (drawn !== shown) replace(health, healthView(status));
      shown = drawn;
      workers.setStatus(status);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (!shown) replace(health, trouble(error, look));
    }
    timer = setTimeout(look, PAUSE);
  }
  const off = live.follow((sample) => {
    if (!sample || document.hidden) return;
    graphs.update();
    map.update(sample);
    workers.update(sample);
  });
  if (live.last()) {
    map.update(live.last());
    workers.update(live.last());
  }
  look();
  return () => {
    off();
    clearTimeout(timer);
  };
}

function healthView(status) {
  const { isWell, sentence, findings, notes } = verdict(status);
  const workers = status.workers ?? [];
  const figures = [
    ["records", sum(workers, "records")],
    ["databases", sum(workers, "databases")],
    ["zones", sum(workers, "zones")],
    ["stores", sum(workers, "stores")],
  ];
  return h(
    "div",
    { class: "verdict", "data-well": String(isWell) },
    h("h1", null, isWell ? "All is well" : "Not well", h("span", null, isWell ? `: ${sentence}` : `: ${sentence}`)),
    findings.length > 0 &&
      h(
        "ol",
        null,
        findings.map(({ what, remedy }) => h("li", null, h("b", null, `${what}.`), " ", remedy)),
      ),
    notes.length > 0 &&
      h(
        "p",
        null,
        notes.map((text) => `${text}. `),
        h("a", { href: router.link("sync", ["quarantine"]) }, "See them"),
      ),
    h(
      "dl",
      { class: "counts" },
      figures.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", { class: "number" }, count(value)))),
    ),
  );
}

/** A developer sees the containers that are theirs. */
function showContainers(outlet, signal) {
  const content = place();
  replace(outlet, head("Your containers", "Choose one to see its data, its devices and its schema."), content);
  loading(
    content,
    () =>
      Promise.all(
        state
          .allContainers()
          .map(async (entry) => [entry, await get("usage", { container: entry.container }, { signal })]),
      ),
    (rows) =>
      rows.length
        ? h("div", { class: "grid" }, rows.map(containerCard))
        : empty("No container yet", "An operator gives you the role of a developer of one."),
    signal,
  );
}

function containerCard([entry, usage]) {
  const open = () => {
    state.setScope(entry.container, state.scope().environment);
    router.go("data");
  };
  return card(
    entry.displayName || entry.container,
    h(
      "div",
      { class: "stack" },
      h(
        "p",
        { class: "soft" },
        `${plural(usage.records ?? 0, "record")} in ${plural(usage.databases ?? 0, "database")}, ` +
          `${bytes(usage.bytes ?? 0)}`,
      ),
      h("div", null, button("Open", open, { name: `Open ${entry.container}` })),
    ),
  );
}
