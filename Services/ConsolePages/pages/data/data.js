// Data: from the container down to a record, one step of the address at a time.

import { h, replace } from "../../core/dom.js";
import { brief } from "../../core/format.js";
import { link } from "../../core/router.js";
import * as state from "../../core/state.js";
import { empty, head } from "../../parts/parts.js";
import { showContainer } from "./databases.js";
import { showDatabase } from "./zones.js";
import { showZone } from "./records.js";
import { showRecord } from "./record.js";

export function show(outlet, place, query, signal) {
  const { container, environment } = state.scope();
  if (!container) {
    replace(
      outlet,
      head("Data"),
      empty(
        "No container yet",
        "A container holds the data of one app. Make the first one in a terminal or under People, tokens and keys.",
      ),
    );
    return undefined;
  }
  const [named = container, inEnvironment = environment, owner, zone, record] = place;
  if (place.length >= 2) state.setScope(named, inEnvironment);
  const at = { container: named, environment: inEnvironment, owner, zone, record };
  if (record) return showRecord(outlet, at, signal);
  if (zone) return showZone(outlet, at, query, signal);
  if (owner) return showDatabase(outlet, at, signal);
  return showContainer(outlet, at, query, signal);
}

/** The steps from the container to a place. */
export function trail({ container, environment, owner, zone }, until) {
  const steps = [[container, link("data", [container, environment])]];
  if (until > 1) steps.push([brief(owner, 18), link("data", [container, environment, owner])]);
  if (until > 2) steps.push([zone, link("data", [container, environment, owner, zone])]);
  return steps;
}

/** A list that nothing is in, and what a worker that did not answer would add to it. */
export const silentHint = (silent) =>
  silent?.length > 0 &&
  h(
    "p",
    { class: "hint", role: "status" },
    `Not all are here: ${silent.join(", ")} did not answer. Reload in a moment.`,
  );
