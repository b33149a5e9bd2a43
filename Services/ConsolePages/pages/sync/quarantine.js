// Changes that no export could write yet: the full error, and another try.

import { get, post } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, brief, date, plural } from "../../core/format.js";
import { storeCall } from "../../core/plane.js";
import { link } from "../../core/router.js";
import { badge, button, empty, facts, loading, place } from "../../parts/parts.js";
import { note, noteError } from "../../parts/dialogs.js";
import { pagedArray } from "../../parts/pager.js";
import { silentHint } from "../data/data.js";

export function showQuarantine(content, at, _query, signal) {
  const { container, environment } = at;
  const list = place();
  const fill = () =>
    loading(
      list,
      () => get("quarantine", { container, environment }, { signal }),
      ({ quarantine = [], silent }) => [
        silentHint(silent),
        pagedArray(
          () => quarantine,
          (rows) =>
            rows.length
              ? h(
                  "ul",
                  { class: "stack plain-list padded" },
                  rows.map((row) => entry(row, at, fill)),
                )
              : empty("Nothing is held back", "Every saved change became a record, or waits its turn."),
          signal,
        ).view,
      ],
      signal,
    );
  const all = button("Try all again", async () => {
    try {
      const query = new URLSearchParams({ container, environment });
      const { retried = 0 } = await post("quarantine/retry", undefined, { query: Object.fromEntries(query) });
      note(`${plural(retried, "object")} will be tried again.`);
      await fill();
    } catch (error) {
      noteError(error);
    }
  });
  replace(content, h("section", { class: "card bare" }, h("header", null, h("h2", null, "Held back"), all), list));
  fill();
}

function entry(row, at, done) {
  const store = { ...at, owner: row.owner, user: row.user, store: row.store, scope: row.scope ?? "private" };
  const retry = button(
    "Try again",
    async () => {
      try {
        await storeCall("POST", store, "quarantine/retry", { json: { objectIDs: [row.objectID] } });
        note("It is tried again now.");
        await done();
      } catch (error) {
        noteError(error);
      }
    },
    { name: `Try ${row.objectID} again` },
  );
  return h(
    "li",
    { class: "held" },
    h(
      "div",
      { class: "row" },
      badge(row.cause, row.retryDate ? "warn" : "bad"),
      h("b", null, row.entity),
      h("code", null, row.objectID),
      h("span", { class: "rest" }),
      retry,
    ),
    h("p", null, row.reason),
    facts([
      [
        "Error",
        [
          row.serverErrorCode,
          row.ckErrorCode && `CKError ${row.ckErrorCode}`,
          row.cocoaErrorCode && `Cocoa ${row.cocoaErrorCode}`,
        ]
          .filter(Boolean)
          .join(", "),
      ],
      ["Device", h("a", { href: link("sync", ["stores", row.owner, row.store]) }, brief(row.store, 20))],
      ["First tried", date(row.firstDate)],
      ["Tries", `${row.attempts}, the last ${ago(row.lastDate)}`],
      ["Next try", row.retryDate ? date(row.retryDate) : "only when somebody asks"],
    ]),
  );
}
