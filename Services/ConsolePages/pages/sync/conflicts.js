// Conflicts: what two devices said, side by side with what was before, and one click to settle.

import { h, replace } from "../../core/dom.js";
import { ago, brief, plural } from "../../core/format.js";
import { deviceNames, zoneCall, zonesOf } from "../../core/plane.js";
import { link, note as noteQuery } from "../../core/router.js";
import { badge, button, choice, empty, field, input, trouble } from "../../parts/parts.js";
import { note, noteError } from "../../parts/dialogs.js";

/** Zones that are asked at a time, and until the reader asks for more. */
const AT_ONCE = 6;
const ROUND = 48;

export function showConflicts(content, { container, environment }, query, signal) {
  const list = h("ul", { class: "stack plain-list" });
  const said = h("p", { class: "soft", role: "status" });
  const more = button("Look through more zones", () => round(), { hidden: true });
  const words = input({ type: "search", placeholder: "Zone or owner", value: query.zone ?? "" });
  const kind = choice(
    [
      ["open", "Open"],
      ["lost", "Lost edits"],
      ["restored", "Restored"],
      ["resolved", "Resolved"],
      ["", "All"],
    ],
    query.state ?? "open",
    () => begin(),
  );
  let zones = [];
  let next = 0;
  let found = 0;
  let run = 0;

  async function begin() {
    noteQuery({ state: kind.value, zone: words.value });
    run += 1;
    [next, found] = [0, 0];
    replace(list);
    replace(said, "Looking…");
    try {
      const answer = await zonesOf({ container, environment }, signal);
      const text = words.value.trim().toLowerCase();
      zones = answer.zones.filter((zone) => !zone.deleted && `${zone.zone} ${zone.owner}`.toLowerCase().includes(text));
      await round();
    } catch (error) {
      if (!signal.aborted) replace(list, trouble(error, begin));
    }
  }

  async function round() {
    const mine = run;
    const end = Math.min(next + ROUND, zones.length);
    more.hidden = true;
    const work = async () => {
      while (next < end && run === mine && !signal.aborted) {
        const zone = zones[next];
        next += 1;
        const database = { container, environment, owner: zone.owner };
        await journal(database, zone.zone, () => run === mine);
        if (run !== mine) return;
        replace(said, `${plural(found, "conflict")} in ${next} of ${plural(zones.length, "zone")}.`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (run !== mine || signal.aborted) return;
    more.hidden = next >= zones.length;
    replace(said, `${plural(found, "conflict")} in ${next} of ${plural(zones.length, "zone")}.`);
    if (!found)
      replace(list, h("li", null, empty("No conflict", "Edits of different devices were joined without a loss.")));
  }

  /** Shows all entries of a zone's journal, which comes in pages with the oldest entry first. */
  async function journal(database, zone, isWanted) {
    let [after, moreComing, names] = [undefined, true, undefined];
    while (moreComing && isWanted() && !signal.aborted) {
      const query = { state: kind.value, after };
      const answer = await zoneCall("GET", database, zone, "conflicts", { query, signal });
      const entries = answer.conflicts ?? [];
      if (entries.length) names ??= await deviceNames(database, signal);
      if (!isWanted()) return;
      for (const conflict of entries) {
        found += 1;
        list.append(entry(conflict, database, zone, names));
      }
      ({ lastConflict: after, moreComing = false } = answer);
    }
  }

  const form = h(
    "form",
    {
      class: "row end",
      on: {
        submit: (event) => {
          event.preventDefault();
          begin();
        },
      },
    },
    field("State", kind),
    field("Zone or owner", words),
    button("Look", null, { type: "submit" }),
  );
  replace(content, h("div", { class: "stack" }, form, said, list, h("div", null, more)));
  begin();
}

function entry(conflict, database, zone, names) {
  const view = h("li", { class: "card" });
  draw(conflict);
  return view;

  function draw(shown) {
    const isOpen = shown.state === "open";
    replace(
      view,
      h(
        "div",
        { class: "stack tight" },
        h(
          "header",
          { class: "row" },
          h("h2", { tabindex: -1 }, shown.entity),
          badge(shown.state, isOpen ? "warn" : shown.state === "lost" ? "bad" : "good"),
          h("span", { class: "soft" }, ago(shown.date)),
        ),
        h(
          "p",
          null,
          WORDS[shown.kind] ?? shown.kind,
          " ",
          h(
            "a",
            {
              class: "mono small",
              href: link("data", [database.container, database.environment, database.owner, zone, shown.objectID]),
            },
            shown.objectID,
          ),
        ),
        h(
          "p",
          { class: "small soft" },
          `Zone ${zone} of ${brief(database.owner, 20)}. The edit that lost is by ` +
            `${brief(shown.lostBy?.userRecordName, 20)} on ${deviceOf(shown.lostBy, names)}.`,
        ),
        h("div", { class: "sides" }, sides(shown, settle)),
        canRestore(shown) &&
          h(
            "div",
            null,
            button("Restore what was lost", () => settle({ action: "restore" })),
          ),
      ),
    );
  }

  async function settle(action) {
    try {
      draw({
        ...conflict,
        ...(await zoneCall("POST", database, zone, "conflicts", { json: { number: conflict.number, ...action } })),
      });
      note("Settled. Every device imports the result.");
      view.querySelector("h2")?.focus?.();
    } catch (error) {
      noteError(error);
    }
  }
}

const deviceOf = (mark, names) => names.get(mark?.deviceID) ?? mark?.deviceID ?? "an unknown device";

const WORDS = {
  undecided: "Two devices set the same property, and the model says that somebody decides.",
  lostValue: "An edit lost to another one.",
  lostObject: "An object was deleted while another device edited it.",
  unexported: "A change can't be written any more.",
  reverted: "A change was undone because its user may not make it.",
};

const canRestore = ({ kind, state }) => kind !== "undecided" && state === "lost";

function sides(conflict, settle) {
  if (conflict.kind === "undecided") {
    return [
      ["client", "The device says"],
      ["server", "The server has"],
      ["ancestor", "Before"],
    ].map(([pick, title]) =>
      side(
        title,
        conflict[pick],
        conflict.state === "open" &&
          conflict[pick] &&
          button("Take this", () => settle({ action: "resolve", pick }), { name: `Take ${pick}` }),
        pick === "server",
      ),
    );
  }
  if (conflict.kind === "lostValue") {
    return [
      ["lost", "Lost"],
      ["kept", "Kept"],
      ["ancestor", "Before"],
    ].map(([name, title]) => side(title, conflict[name], null, name === "kept"));
  }
  return (conflict.changes ?? []).map((change) =>
    side(change.changeType, { ...change.attributes, ...change.relationships }),
  );
}

function side(title, values, action, isKept = false) {
  return h(
    "div",
    { class: "side-value", "data-kept": String(isKept) },
    h("h3", null, title),
    values
      ? Object.entries(values).map(([name, value]) =>
          h(
            "div",
            null,
            h("small", { class: "soft" }, name),
            h(
              "div",
              { class: "value" },
              value === null ? "empty" : typeof value === "object" ? JSON.stringify(value) : String(value),
            ),
          ),
        )
      : h("p", { class: "soft" }, "nothing"),
    action,
  );
}
