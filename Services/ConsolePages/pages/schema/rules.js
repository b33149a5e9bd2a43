// What must be unique, and the duplicates that are there.

import { call, get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { brief, count } from "../../core/format.js";
import { link } from "../../core/router.js";
import { button, empty, field, loading, place, table } from "../../parts/parts.js";
import { ask, note } from "../../parts/dialogs.js";
import { pagedArray } from "../../parts/pager.js";
import { silentHint } from "../data/data.js";

export function showRules(content, { container, environment }, _query, signal) {
  const list = place();
  const change = h("div");
  const found = place();
  const target = ["rules", container, environment];
  const fill = () =>
    loading(
      list,
      () => get(target, undefined, { signal }),
      (rules) => {
        replace(
          change,
          button("Change the rules", () => edit(target, rules, fill)),
        );
        return rulesView(rules);
      },
      signal,
    );
  replace(
    content,
    h(
      "div",
      { class: "stack" },
      h("section", { class: "card bare" }, h("header", null, h("h2", null, "Rules"), change), list),
      h("section", { class: "card bare" }, h("header", null, h("h2", null, "Duplicates")), found),
    ),
  );
  fill();
  loading(
    found,
    () => get("duplicates", { container }, { signal }),
    ({ duplicates = [], silent }) => [
      silentHint(silent),
      pagedArray(() => duplicates.filter((row) => row.environment === environment), duplicateTable, signal).view,
    ],
    signal,
  );
}

function rulesView({ unique = [] }) {
  if (!unique.length) return empty("No rules", "Every object may have the values of another one.");
  return table(
    "Rules",
    [
      ["Entity", (row) => h("b", null, row.entity)],
      ["Unique together", (row) => (row.attributes ?? []).join(", ")],
      ["Within", (row) => row.scope ?? "zone"],
      ["Policy", (row) => row.policy ?? ""],
    ],
    unique,
  );
}

function duplicateTable(rows) {
  if (!rows.length) return empty("No duplicates");
  return table(
    "Duplicates",
    [
      ["Type", (row) => h("b", { class: "nowrap" }, row.recordType)],
      ["Share", (row) => row.fields.replaceAll("CD_", "")],
      ["Objects", (row) => count(row.count), { right: true }],
      rows.some((row) => row.merging) && ["Merging", (row) => count(row.merging), { right: true }],
      [
        "Which",
        (row) =>
          h(
            "ul",
            { class: "plain-list" },
            row.records.map((name) =>
              h(
                "li",
                null,
                h("a", { class: "cut mono small", title: name, href: link("data", [...placeOf(row), name]) }, name),
              ),
            ),
            row.count > row.records.length && h("li", { class: "soft" }, `and ${row.count - row.records.length} more`),
          ),
      ],
      [
        "Zone",
        (row) => h("a", { class: "nowrap", title: row.zone, href: link("data", placeOf(row)) }, brief(row.zone, 26)),
      ],
      ["Owner", (row) => h("code", { class: "nowrap", title: row.owner }, brief(row.owner, 12))],
    ],
    rows,
  );
}

const placeOf = ({ container, environment, owner, zone }) => [container, environment, owner, zone];

async function edit(target, rules, done) {
  const text = h("textarea", { rows: 14, value: JSON.stringify(rules, null, 2), spellcheck: "false" });
  const saved = await ask(
    "Rules of uniqueness",
    field(
      "Rules as JSON",
      text,
      "The server checks them first, and changes nothing if one of them does not fit the model.",
    ),
    "Save",
    async () => {
      await call("PUT", target, { text: text.value, query: { dryRun: true } });
      return call("PUT", target, { text: text.value });
    },
    { wide: true },
  );
  if (!saved) return;
  note("The rules are saved.");
  done();
}
