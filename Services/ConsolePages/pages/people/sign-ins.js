// The audit of sign-ins: who came in, by which way and from where, and who was refused.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { date } from "../../core/format.js";
import { isOperator, spokenName } from "../../core/state.js";
import { badge, cut, empty, table } from "../../parts/parts.js";
import { paged, PAGE } from "../../parts/pager.js";

export function showSignIns(content, { container }, _query, signal) {
  const query = { container: isOperator() ? undefined : container, limit: PAGE };
  const load = async (after) => {
    const { signIns = [], after: next } = await get("sign-ins", { ...query, after }, { signal });
    return { rows: signIns, next: signIns.length === PAGE ? next : null };
  };
  replace(
    content,
    h("section", { class: "card bare" }, h("header", null, h("h2", null, "Sign-ins")), paged(load, view, signal).view),
  );
}

function view(rows) {
  if (!rows.length) return empty("Nobody has signed in yet", "Each sign-in is noted here, also one that was refused.");
  return table(
    "Sign-ins",
    [
      ["When", (row) => h("span", { class: "nowrap" }, date(row.at))],
      ["Who", (row) => cut(row.user ? spokenName(row.user) : "nobody known", { class: "cut name" })],
      ["Way", (row) => h("span", { class: "nowrap" }, [row.way, row.provider].filter(Boolean).join(", "))],
      ["Answer", (row) => badge(row.refusal ?? "signed in", row.refusal ? "bad" : "good")],
      ["From", (row) => cut([row.address, row.client].filter(Boolean).join(", "), { class: "cut" })],
      ["App", (row) => cut(row.container ?? "", { class: "cut" })],
    ],
    rows,
  );
}
