// The audit: each call that changed something, with the person who made it.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { date } from "../../core/format.js";
import { isOperator, spokenName } from "../../core/state.js";
import { badge, cut, empty, table } from "../../parts/parts.js";
import { paged, PAGE } from "../../parts/pager.js";

export function showAudit(content, { container }, _query, signal) {
  const query = { container: isOperator() ? undefined : container, limit: PAGE };
  const load = async (after) => {
    const { acts = [], after: next } = await get("audit", { ...query, after }, { signal });
    return { rows: acts, next: acts.length === PAGE ? next : null };
  };
  replace(
    content,
    h("section", { class: "card bare" }, h("header", null, h("h2", null, "Audit")), paged(load, view, signal).view),
  );
}

function view(rows) {
  if (!rows.length)
    return empty("Nothing was changed yet", "Each call that changes something is noted here before it is carried out.");
  return table(
    "Audit",
    [
      ["When", (row) => h("span", { class: "nowrap" }, date(row.at))],
      ["Who", (row) => cut(spokenName(row.name), { class: "cut name" })],
      ["Role", (row) => h("span", { class: "nowrap" }, row.role)],
      ["Call", (row) => h("code", { class: "nowrap" }, row.method)],
      [
        "Answer",
        (row) =>
          badge(row.status ?? "under way", row.status === undefined ? "accent" : row.status < 400 ? "good" : "bad"),
      ],
      ["Of", (row) => cut(row.path, { class: "cut wide mono small" })],
      rows.some((row) => row.query) && ["With", (row) => row.query && cut(row.query)],
    ],
    rows,
  );
}
