// Invitations by mail: the server, what waits, how the mails of a day ended, and each mail.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, count, date } from "../../core/format.js";
import { badge, card, cut, empty, facts, loading, place, table } from "../../parts/parts.js";
import { paged, PAGE } from "../../parts/pager.js";

export function showMail(content, _scope, _query, signal) {
  const state = place();
  const load = async (after) => {
    const { mails = [], after: next } = await get(["mail", "sent"], { limit: PAGE, after }, { signal });
    return { rows: mails, next: mails.length === PAGE ? next : null };
  };
  replace(
    content,
    state,
    h("section", { class: "card bare" }, h("header", null, h("h2", null, "Mails")), paged(load, view, signal).view),
  );
  loading(state, () => settings(signal), serverView, signal);
}

/** null while no server is set. */
async function settings(signal) {
  try {
    return await get("mail", {}, { signal });
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function serverView(mail) {
  if (!mail) return empty("No mail server", "Nobody is invited by mail. aquifer mail set names a server.");
  return card(
    "Invitations by mail",
    facts([
      ["Server", mail.server],
      ["Sender", mail.from],
      ["Waiting", count(mail.waiting)],
      ["Sent in a day", count(mail.sentInDay)],
      ["Bounced in a day", count(mail.bouncedInDay)],
      ["Given up in a day", count(mail.expiredInDay)],
      mail.lastFailure && ["Last failure", `${mail.lastFailure}, ${ago(mail.lastFailureAt)}`],
    ]),
  );
}

const KINDS = { sent: "good", bounced: "bad", expired: "warn" };

function view(rows) {
  if (!rows.length) return empty("No mails", "A mail is sent when somebody shares with an address that no user has.");
  return table(
    "Mails",
    [
      ["When", (row) => h("span", { class: "nowrap" }, date(row.at))],
      ["To", (row) => cut(row.email, { class: "cut name" })],
      ["Inviter", (row) => cut(row.inviter, { class: "cut" })],
      ["App", (row) => cut(row.container, { class: "cut" })],
      ["End", (row) => badge(row.outcome, KINDS[row.outcome])],
      ["Reason", (row) => cut(row.reason ?? "", { class: "cut" })],
    ],
    rows,
  );
}
