// The devices' stores, those with the most to export first.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, brief, count } from "../../core/format.js";
import { listedOwner } from "../../core/plane.js";
import { link } from "../../core/router.js";
import { badge, empty, field, input, loading, place, table } from "../../parts/parts.js";
import { pagedArray } from "../../parts/pager.js";
import { silentHint } from "../data/data.js";

export const pendingOf = (store) => Math.max(0, (store.transactions ?? 0) - (store.exported ?? 0));

export function showStores(content, { container, environment }, { owner }, signal) {
  const list = place();
  const words = input({ type: "search", placeholder: "Device, store or user", value: owner ?? "" });
  replace(
    content,
    h(
      "section",
      { class: "card bare" },
      h("header", null, h("h2", null, "Devices"), h("div", null, field("Filter", words))),
      list,
    ),
  );
  loading(
    list,
    () => get("stores", { container, environment, owner: listedOwner(owner) }, { signal }),
    ({ stores = [], silent }) => {
      const sorted = stores.toSorted((one, other) => pendingOf(other) - pendingOf(one));
      const shown = () =>
        sorted.filter((store) =>
          `${store.device} ${store.store} ${store.user}`.toLowerCase().includes(words.value.trim().toLowerCase()),
        );
      const pages = pagedArray(shown, storeTable, signal);
      words.addEventListener("input", pages.reset);
      return [silentHint(silent), pages.view];
    },
    signal,
  );
}

function storeTable(rows) {
  if (!rows.length) return empty("No device here", "A device appears with the set-up of its store.");
  return table(
    "Devices",
    [
      [
        "Device",
        (row) => h("a", { href: link("sync", ["stores", row.owner, row.store]) }, row.device || brief(row.store)),
      ],
      ["User", (row) => h("code", { class: "cut", title: row.user }, brief(row.user, 18))],
      ["Database", (row) => row.scope],
      [
        "To export",
        (row) => (pendingOf(row) ? badge(count(pendingOf(row)), "warn") : badge("none", "good")),
        { right: true },
      ],
      ["Exported", (row) => count(row.exported), { right: true }],
      ["Set up", (row) => ago(row.createdAt)],
    ],
    rows,
  );
}
