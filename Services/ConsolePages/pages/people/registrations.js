// Devices that a vendor wakes while their app does not run.

import { call, get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, count, date } from "../../core/format.js";
import { note as noteQuery, show } from "../../core/router.js";
import { isOperator } from "../../core/state.js";
import { button, cut, empty, field, input, loading, place, table } from "../../parts/parts.js";
import { confirm, note } from "../../parts/dialogs.js";
import { pagedArray } from "../../parts/pager.js";

export function showRegistrations(content, { container }, query, signal) {
  const list = place();
  const words = input({ type: "search", placeholder: "A part of a user, device or vendor", value: query.search ?? "" });
  replace(
    content,
    h(
      "section",
      { class: "card bare" },
      h("header", null, h("h2", null, "Woken devices"), h("div", null, field("Search", words))),
      list,
    ),
  );
  loading(
    list,
    () => get("registrations", { container: isOperator() ? undefined : container }, { signal }),
    ({ registrations = [], countedSince, silent = [] }) => {
      const found = () => registrations.filter((row) => fits(row, words.value.trim().toLowerCase()));
      const pages = pagedArray(found, (rows) => registrationTable(rows), signal);
      words.addEventListener("input", () => {
        noteQuery({ search: words.value.trim() });
        pages.reset();
      });
      return [counted(countedSince, silent), pages.view];
    },
    signal,
  );
}

/** Notifiers keep their counts in memory. */
export const counted = (since, silent) =>
  h(
    "p",
    { class: "soft" },
    since ? `Pushes are counted since ${date(since)}.` : "No notifier tells of pushes.",
    silent.length > 0 && ` ${silent.join(", ")} did not answer.`,
  );

const fits = (row, words) =>
  [row.user, row.device, row.address, row.container].some((text) => text?.toLowerCase().includes(words));

export function registrationTable(rows) {
  if (!rows.length) return empty("No devices", "A device is woken after its app has registered for pushes.");
  return table(
    "Woken devices",
    [
      ["User", (row) => cut(row.user, { class: "cut name" })],
      ["Vendor", (row) => cut(row.address, { class: "cut" })],
      ["Device", (row) => cut(row.device, { class: "cut" })],
      ["App", (row) => cut(row.container, { class: "cut" })],
      ["Environment", (row) => row.environment, { class: "nowrap" }],
      ["Woken for", (row) => (row.hearsEveryZone ? "each zone" : "subscriptions"), { class: "nowrap" }],
      ["Last push", (row) => (row.lastPush ? ago(row.lastPush) : "–"), { class: "nowrap" }],
      ["Arrived", (row) => count(row.delivered), { right: true }],
      ["Failed", (row) => failures(row)],
      ["Renewed", (row) => ago(row.renewed), { class: "nowrap" }],
      ["", ending],
    ],
    rows,
  );
}

const failures = (row) =>
  cut(row.lastFailure ? `${count(row.failed)}: ${row.lastFailure}` : count(row.failed), { class: "cut" });

const ending = (row) =>
  isOperator() && button("End", () => end(row), { kind: "quiet", name: `Wake ${row.device} no more` });

async function end({ id, user }) {
  const ended = await confirm(
    `Wake this device of ${user} no more?`,
    "It hears of changes when its app runs. The app may register again at its next start.",
    "End it",
    () => call("DELETE", ["registrations", id]),
  );
  if (!ended) return;
  note("The device is woken no more.");
  show();
}
