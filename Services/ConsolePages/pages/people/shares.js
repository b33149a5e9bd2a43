// What users share with one another, with whom, and the end of it.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, brief, count } from "../../core/format.js";
import { zoneCall } from "../../core/plane.js";
import { link } from "../../core/router.js";
import { badge, button, empty, field, input, loading, place, table } from "../../parts/parts.js";
import { ask, dialog, note } from "../../parts/dialogs.js";
import { pagedArray } from "../../parts/pager.js";
import { silentHint } from "../data/data.js";

export function showShares(content, at, query, signal) {
  const { container, environment } = at;
  const list = place();
  const words = input({ type: "search", placeholder: "Title, zone or owner", value: query.zone ?? query.owner ?? "" });
  replace(
    content,
    h(
      "section",
      { class: "card bare" },
      h("header", null, h("h2", null, "Shares"), h("div", null, field("Filter", words))),
      list,
    ),
  );
  const fill = () =>
    loading(
      list,
      () => get("shares", { container, environment }, { signal }),
      ({ shares = [], silent }) => {
        const shown = () =>
          shares.filter((row) =>
            `${row.title ?? ""} ${row.zone} ${row.owner}`.toLowerCase().includes(words.value.trim().toLowerCase()),
          );
        const pages = pagedArray(shown, (rows) => shareTable(rows, fill), signal);
        words.addEventListener("input", pages.reset);
        return [silentHint(silent), pages.view];
      },
      signal,
    );
  fill();
}

function shareTable(rows, done) {
  if (!rows.length) return empty("Nothing is shared", "Owners share a zone or an object graph from their app.");
  return table(
    "Shares",
    [
      ["Title", (row) => h("b", null, row.title || brief(row.root ?? row.zone, 24))],
      [
        "Zone",
        (row) =>
          h(
            "a",
            { title: row.zone, href: link("data", [row.container, row.environment, row.owner, row.zone]) },
            brief(row.zone, 26),
          ),
      ],
      ["Owner", (row) => h("code", { class: "nowrap", title: row.owner }, brief(row.owner, 16))],
      ["By link", (row) => badge(spoken(row.publicPermission), /none/i.test(row.publicPermission) ? "" : "warn")],
      ["Participants", (row) => count(row.participants), { right: true }],
      ["Requests", (row) => (row.requesters ? badge(count(row.requesters), "accent") : "0"), { right: true }],
      [
        "",
        (row) =>
          h(
            "span",
            { class: "row" },
            button("Who", () => who(row), { kind: "quiet", name: `Participants of ${row.title || row.zone}` }),
            button("Stop", () => stop(row, done), { kind: "quiet", name: `Stop sharing ${row.title || row.zone}` }),
          ),
      ],
    ],
    rows,
  );
}

const spoken = (permission) =>
  ({ none: "no access", readonly: "reads", readwrite: "reads and writes" })[
    String(permission).toLowerCase().replace("_", "")
  ] ?? permission;

function who({ container, environment, owner, zone, share, title }) {
  const content = place();
  dialog(`Participants of ${title || zone}`, content, [], { wide: true });
  loading(
    content,
    () => get("participants", { container, environment, owner, zone }),
    ({ participants = [] }) =>
      table(
        "Participants",
        [
          ["Person", (row) => row.user],
          ["Role", (row) => row.role],
          ["Permission", (row) => (row.permission ? spoken(row.permission) : "")],
          ["Acceptance", (row) => row.acceptance ?? ""],
          ["Since", (row) => (row.at ? ago(row.at) : "")],
        ],
        participants.filter((row) => row.share === share),
      ),
  );
}

async function stop(row, done) {
  const stopped = await ask(
    `Stop sharing ${row.title || row.zone}?`,
    h("p", null, "The owner keeps the records. Everybody else loses access, and their devices forget the objects."),
    "Stop sharing",
    () => zoneCall("POST", row, row.zone, "unshare", { json: { share: row.share } }),
    { danger: true },
  );
  if (!stopped) return;
  note("The share has ended.");
  done();
}
