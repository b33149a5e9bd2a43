// A container's databases: the public one, and one of each user who has data.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { bytes, count, plural } from "../../core/format.js";
import { link, note } from "../../core/router.js";
import { field, empty, head, input, loading, place, table } from "../../parts/parts.js";
import { paged, PAGE } from "../../parts/pager.js";

/** Milliseconds after the last key before the search is sent. */
const PAUSE = 200;

export function showContainer(outlet, at, query, signal) {
  const { container, environment } = at;
  const usage = place();
  const list = h("div");
  const search = input({ type: "search", value: query.search ?? "", placeholder: "A part of a name or address" });
  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      note({ search: search.value });
      fill();
    }, PAUSE);
  });
  const load = async (after) => {
    const answer = await get("users", { container, usage: true, search: search.value, after, limit: PAGE }, { signal });
    return { rows: answer.users ?? [], next: answer.after };
  };
  const fill = () => replace(list, paged(load, (rows) => users(rows, at, search.value), signal).view);
  replace(
    outlet,
    head("Data", `Databases of ${container}, ${environment}.`),
    h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "grid" },
        h(
          "a",
          { class: "crumb-card", href: link("data", [container, environment, "public"]) },
          h("b", null, "Public database"),
          h("span", { class: "soft" }, "What all users of the app read"),
        ),
        usage,
      ),
      h(
        "section",
        { class: "card bare" },
        h("header", null, h("h2", null, "Private databases"), h("div", null, field("Search", search))),
        list,
      ),
    ),
  );
  loading(
    usage,
    () => get("usage", { container, environment }, { signal }),
    (answer) =>
      h(
        "div",
        { class: "crumb-card" },
        h("b", null, plural(answer.records ?? 0, "record")),
        h("span", { class: "soft" }, `in ${plural(answer.databases ?? 0, "database")}, ${bytes(answer.bytes ?? 0)}`),
      ),
    signal,
  );
  fill();
  return () => clearTimeout(timer);
}

function users(rows, { container, environment }, words) {
  if (!rows.length)
    return words
      ? empty("No user of this name", "Try a shorter part of it.")
      : empty("No data yet", "A user appears here with the first record.");
  return table(
    "Private databases",
    [
      ["User", (user) => h("a", { href: link("data", [container, environment, user.userRecordName]) }, user.name)],
      ["Person", (user) => [user.givenName, user.familyName].filter(Boolean).join(" ")],
      ["Record name", (user) => h("code", { class: "cut", title: user.userRecordName }, user.userRecordName)],
      ["Records", (user) => count(user.records), { right: true }],
      ["Size", (user) => bytes(user.bytes), { right: true, class: "right number nowrap" }],
    ],
    rows,
  );
}
