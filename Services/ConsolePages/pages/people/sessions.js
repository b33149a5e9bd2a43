// The sessions of people who signed in on a page.

import { call, get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, date } from "../../core/format.js";
import { show } from "../../core/router.js";
import { button, cut, empty, loading, place, table } from "../../parts/parts.js";
import { confirm, note } from "../../parts/dialogs.js";
import { pagedArray } from "../../parts/pager.js";

export function showSessions(content, { container }, _query, signal) {
  const list = place();
  replace(content, h("section", { class: "card bare" }, h("header", null, h("h2", null, "Sessions")), list));
  loading(
    list,
    () => get("sessions", { container }, { signal }),
    ({ sessions = [] }) => pagedArray(() => sessions, sessionTable, signal).view,
    signal,
  );
}

export function sessionTable(sessions) {
  if (!sessions.length) return empty("No sessions", "A session begins when a person signs in on an app's page.");
  return table(
    "Sessions",
    [
      ["User", (row) => row.user],
      ["Container", (row) => row.container],
      ["Environment", (row) => row.environment, { class: "nowrap" }],
      ["Client", (row) => cut([row.client, row.provider].filter(Boolean).join(", "), { class: "cut" })],
      ["Used", (row) => ago(row.lastUsed), { class: "nowrap" }],
      ["Began", (row) => ago(row.created), { class: "nowrap" }],
      ["Ends", (row) => date(row.expires), { class: "nowrap" }],
      ["", (row) => button("End", () => end(row), { kind: "quiet", name: `End the session of ${row.user}` })],
    ],
    sessions,
  );
}

async function end({ session, user }) {
  const ended = await confirm(`End the session of ${user}?`, "They have to sign in again.", "End it", () =>
    call("DELETE", ["sessions", session]),
  );
  if (!ended) return;
  note("The session has ended.");
  show();
}
