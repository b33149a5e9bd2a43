// One device's store: its state, its events, what is held back, what it saved.

import { CallError, get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, bytes, count, date } from "../../core/format.js";
import { storeCall } from "../../core/plane.js";
import { link } from "../../core/router.js";
import { badge, card, empty, facts, head, loading, place, table } from "../../parts/parts.js";
import { paged } from "../../parts/pager.js";
import { eventRow } from "./events.js";

export function showStore(outlet, at, signal) {
  const content = place();
  replace(outlet, content);
  loading(
    content,
    async () => {
      const { container, environment, owner } = at;
      const rows = (await get("stores", { container, environment, owner }, { signal })).stores ?? [];
      const store = rows.find((row) => row.store === at.store);
      if (!store) throw new CallError(404, "NOT_FOUND", `There is no store ${at.store}`);
      return { store, status: await storeCall("GET", store, "status", { signal }) };
    },
    (found) => view(found, signal),
    signal,
  );
}

function view({ store, status }, signal) {
  const pending = status.pending ?? {};
  const isWell = status.caughtUp || status.idle === "nothingPending";
  return [
    head(store.device || store.store, store.store, {
      trail: [["Devices", link("sync")]],
      actions: [
        h(
          "a",
          { class: "button", href: link("data", [store.container, store.environment, store.owner]) },
          "Its database",
        ),
      ],
    }),
    h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "halves" },
        card(
          "State",
          facts([
            ["Now", badge(isWell ? "caught up" : status.idle, isWell ? "good" : "warn")],
            ["To export", `${count(pending.uploads ?? 0)} transactions, ${bytes(pending.bytes ?? 0)}`],
            ["To import", count(pending.downloads ?? 0)],
            ["Held back", count(status.quarantined ?? 0)],
            ["Conflicts", count(pending.conflicts ?? 0)],
            ["Tried again", status.throttledUntil && date(status.throttledUntil)],
          ]),
        ),
        card(
          "Marks",
          facts([
            ["User", store.user],
            ["Last export", eventFact(status.lastExport)],
            ["Last import", eventFact(status.lastImport)],
            ["First import", status.initialImport?.done ? `done ${date(status.initialImport.date)}` : "not done"],
            ["Set up", date(store.createdAt)],
            ["Model", h("code", { class: "cut", title: store.modelHash }, store.modelHash)],
          ]),
        ),
      ),
      h(
        "section",
        { class: "card bare" },
        h("header", null, h("h2", null, "Saved transactions")),
        history(store, signal),
      ),
      h("section", { class: "card bare" }, h("header", null, h("h2", null, "Events")), events(store, signal)),
    ),
  ];
}

const savedWords = (event) => `${count(event.counts?.saved ?? 0)} saved`;

const eventFact = (event) =>
  event ? `${ago(event.endDate ?? event.startDate)}, ${event.succeeded ? savedWords(event) : "failed"}` : "none yet";

function history(store, signal) {
  return paged(
    async (cursor) => {
      const page = await storeCall("GET", store, "history", { query: { after: cursor, limit: 20 }, signal });
      return { rows: page.transactions ?? [], next: page.moreComing ? page.historyToken : null };
    },
    (rows) =>
      rows.length
        ? table(
            "Saved transactions",
            [
              ["Number", (row) => row.transactionNumber],
              ["Saved", (row) => date(row.timestamp)],
              ["Author", (row) => row.author ?? ""],
              [
                "Changes",
                (row) =>
                  h(
                    "ul",
                    { class: "plain-list" },
                    (row.changes ?? []).slice(0, 6).map((change) =>
                      h(
                        "li",
                        null,
                        `${change.changeType} ${change.entity} `,
                        h(
                          "a",
                          {
                            class: "mono small",
                            href: link("sync", ["explain"], { object: change.objectID, user: store.user }),
                          },
                          change.objectID,
                        ),
                      ),
                    ),
                  ),
              ],
            ],
            rows,
          )
        : empty("Nothing saved", "This device only imports so far."),
    signal,
  ).view;
}

function events(store, signal) {
  return paged(
    async (cursor) => {
      const page = await storeCall("GET", store, "events", { query: { after: cursor, limit: 30 }, signal });
      return { rows: page.events ?? [], next: page.moreComing ? page.lastEvent : null };
    },
    (rows) =>
      rows.length
        ? h(
            "ul",
            { class: "feed" },
            rows.toReversed().map((event) =>
              eventRow({
                ...event,
                startedAt: event.startDate,
                endedAt: event.endDate,
                savedCount: event.counts?.saved,
                deletedCount: event.counts?.deleted,
              }),
            ),
          )
        : empty("No events"),
    signal,
  ).view;
}
