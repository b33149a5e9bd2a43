// A zone: its records, found by a query or in the order of their last change.

import { call } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, date } from "../../core/format.js";
import { changes, query } from "../../core/plane.js";
import { link, note } from "../../core/router.js";
import { recordTypes } from "../../core/schema-text.js";
import { badge, button, card, cut, empty, head, place, loading, table } from "../../parts/parts.js";
import { paged, PAGE } from "../../parts/pager.js";
import { trail } from "./data.js";
import { createRecord } from "./edit.js";
import { queryBuilder } from "./query.js";
import { valueText } from "./values.js";
import { openZoneTools } from "./zone-tools.js";

/** Columns of fields in the table; the record's page has all. */
const COLUMNS = 3;

export function showZone(outlet, at, { type }, signal) {
  const { container, environment, owner, zone } = at;
  const builder = place();
  const list = h("section", { class: "card bare" });
  let types = [];
  const create = button("New record", () => createRecord(at, types), { icon: "plus", disabled: true });
  replace(
    outlet,
    head(zone, `Zone of ${owner}, ${environment}.`, {
      trail: trail(at, 2),
      actions: [create, button("Zone tools", () => openZoneTools(at))],
    }),
    h("div", { class: "stack" }, card("Find records", builder), list),
  );
  loading(
    builder,
    () => call("GET", ["schema", container, environment], { as: "text", signal }),
    (text) => {
      types = recordTypes(text).filter((each) => each.name !== "Users");
      create.disabled = types.length === 0;
      const made = queryBuilder(types, type, (body) => {
        note({ type: body?.recordType });
        replace(list, recordList(at, types, body, signal));
      });
      made.start();
      return made.view;
    },
    signal,
  );
}

function recordList(at, types, body, signal) {
  const load = async (cursor) => {
    if (!body && at.zone !== "_defaultZone" && at.owner !== "public") {
      const page = await changes(at, at.zone, cursor, signal);
      return { rows: page.records ?? [], next: page.moreComing ? page.syncToken : null };
    }
    if (!body) return { rows: [], next: null, isAsked: false };
    const page = await query(at, at.zone, { query: body, resultsLimit: PAGE, continuationMarker: cursor }, signal);
    return { rows: page.records ?? [], next: page.continuationMarker };
  };
  return paged(load, (rows, answer) => view(rows, at, fieldNames(types, body), answer), signal).view;
}

const fieldNames = (types, body) =>
  types
    .find((each) => each.name === body?.recordType)
    ?.fields.filter(
      (each) => !each.isSystem && each.name !== "CD_entityName" && !["BYTES", "ASSET"].includes(each.type),
    )
    .slice(0, COLUMNS)
    .map((each) => each.name);

function view(rows, at, fields, { isAsked = true }) {
  if (!isAsked)
    return empty("Choose a record type", "This zone has no feed of all its records: they are found type by type.");
  if (!rows.length) return empty("No records here", "Loosen the conditions, or make a record.");
  const columns = fields
    ? fields.map((name) => [name.replace(/^CD_/, ""), (row) => cut(valueText(row.fields?.[name]))])
    : [
        ["Type", (row) => row.recordType ?? ""],
        ["Content", (row) => cut(summary(row))],
      ];
  return table(
    "Records",
    [
      ["Record", (row) => nameOf(row, at)],
      ...columns,
      [
        "Changed",
        (row) => h("span", { class: "nowrap", title: date(row.modified?.timestamp) }, ago(row.modified?.timestamp)),
      ],
      ["Tag", (row) => h("code", null, row.recordChangeTag ?? "")],
    ],
    rows,
  );
}

function nameOf(row, { container, environment, owner, zone }) {
  if (row.deleted)
    return h("span", { class: "row" }, h("code", { title: row.recordName }, row.recordName), badge("deleted", "warn"));
  return h(
    "a",
    {
      class: "cut mono",
      title: row.recordName,
      href: link("data", [container, environment, owner, zone, row.recordName]),
    },
    row.recordName,
  );
}

/** The first values that tell a reader which record this is. */
export function summary(record) {
  return Object.entries(record.fields ?? {})
    .filter(([name]) => !/_ckAsset$|^CD_(entityName|moveReceipt)$/.test(name))
    .map(([, field]) => valueText(field))
    .filter(Boolean)
    .slice(0, 3)
    .join(" · ");
}
