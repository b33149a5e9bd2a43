// Sync: what the devices sent and took, and why something does not arrive.

import { h, replace } from "../../core/dom.js";
import { link } from "../../core/router.js";
import * as state from "../../core/state.js";
import { empty, head, tabs } from "../../parts/parts.js";
import { showConflicts } from "./conflicts.js";
import { showEvents } from "./events.js";
import { showExplain } from "./explain.js";
import { showQuarantine } from "./quarantine.js";
import { showStore } from "./store.js";
import { showStores } from "./stores.js";
import { showZoneChanges } from "./zone-changes.js";

const VIEWS = {
  stores: ["Devices", showStores],
  quarantine: ["Quarantine", showQuarantine],
  conflicts: ["Conflicts", showConflicts],
  explain: ["Explain", showExplain],
  events: ["Live events", showEvents],
  changes: ["Zone changes", showZoneChanges],
};

export function show(outlet, place, query, signal) {
  const at = state.scope();
  if (!at.container) {
    replace(outlet, head("Sync"), empty("No container yet", "Devices set up their stores in a container."));
    return undefined;
  }
  const [name = "stores", owner, store] = place;
  if (store) return showStore(outlet, { ...at, owner, store }, signal);
  const content = h("div");
  const known = VIEWS[name] ? name : "stores";
  replace(
    outlet,
    head("Sync", `What devices saved, and what became of it, in ${at.container}, ${at.environment}.`),
    tabs(
      "Sync",
      Object.entries(VIEWS).map(([key, [text]]) => [key, text, link("sync", key === "stores" ? [] : [key])]),
      known,
    ),
    content,
  );
  return VIEWS[known][1](content, at, query, signal);
}
