// A database: its zones.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { bytes, count, plural } from "../../core/format.js";
import { link } from "../../core/router.js";
import * as state from "../../core/state.js";
import { PUBLIC, recordCall, refuse, zonesOf } from "../../core/plane.js";
import { badge, button, field, head, input, loading, place, table } from "../../parts/parts.js";
import { ask, note } from "../../parts/dialogs.js";
import { pagedArray } from "../../parts/pager.js";
import { silentHint, trail } from "./data.js";

export function showDatabase(outlet, at, signal) {
  const { container, environment, owner } = at;
  const usage = h("span", { class: "soft" });
  const isPublic = owner === PUBLIC;
  const list = h("section", { class: "card bare" });
  const links = isPublic
    ? []
    : [
        state.isOperator() && h("a", { class: "button", href: link("people", ["users", owner]) }, "The user"),
        h("a", { class: "button", href: link("sync", ["stores"], { owner }) }, "Their devices"),
        button("New zone", () => newZone(at, fill), { icon: "plus" }),
      ].filter(Boolean);
  replace(
    outlet,
    head(isPublic ? "Public database" : "Private database", isPublic ? "Every user of the app reads it." : owner, {
      trail: trail(at, 1),
      actions: links,
    }),
    h("p", null, usage),
    h("div", { class: "stack" }, list),
  );
  fill();
  const query = { container, environment, user: isPublic ? undefined : owner };
  get("usage", query, { signal })
    .then((answer) =>
      replace(
        usage,
        isPublic
          ? plural(answer.publicRecords ?? 0, "public record")
          : `${plural(answer.records ?? 0, "record")}, ${bytes(answer.bytes ?? 0)}`,
      ),
    )
    .catch(() => replace(usage));

  function fill() {
    const content = place();
    replace(list, content);
    loading(
      content,
      () => withDefaultZone(at, signal),
      ({ zones, silent }) => [
        silentHint(silent),
        pagedArray(
          () => zones,
          (rows) => view(rows, at),
          signal,
        ).view,
      ],
      signal,
    );
  }
}

/** The database's zones. The default zone is there even while nothing has been written to it. */
async function withDefaultZone(at, signal) {
  const answer = await zonesOf(at, signal);
  const zones = answer.zones.filter((zone) => zone.owner === at.owner);
  if (!zones.some((zone) => zone.zone === "_defaultZone")) zones.push({ zone: "_defaultZone", isImplied: true });
  return { zones, silent: answer.silent };
}

function view(rows, { container, environment, owner }) {
  return table(
    "Zones",
    [
      ["Zone", (row) => h("a", { href: link("data", [container, environment, owner, row.zone]) }, row.zone)],
      [
        "State",
        (row) => (row.deleted ? badge("deleted", "warn") : row.isImplied ? badge("default") : badge("open", "good")),
      ],
      ["Changes", (row) => count(row.sequence ?? 0), { right: true }],
      [
        "Shared with",
        (row) => (row.members ? plural(row.members, "person").replace("persons", "people") : ""),
        { right: true },
      ],
    ],
    rows,
  );
}

async function newZone(at, done) {
  const name = input({ required: true, maxlength: 255 });
  const made = await ask(
    "New zone",
    field("Name", name, "Printable ASCII. It can't be changed later."),
    "Create",
    async () => {
      const operations = [{ operationType: "create", zone: { zoneID: { zoneName: name.value.trim() } } }];
      const [zone] = (await recordCall(at, "zones/modify", { operations })).zones ?? [];
      refuse(zone);
    },
  );
  if (!made) return;
  note(`The zone ${name.value.trim()} is there.`);
  done();
}
