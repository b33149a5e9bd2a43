// Explain: the way of one object, from the save on one device to the import on each other one.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { date, time } from "../../core/format.js";
import { storeCall, zoneCall } from "../../core/plane.js";
import { link, note } from "../../core/router.js";
import { badge, button, card, empty, facts, field, input, loading } from "../../parts/parts.js";

export function showExplain(content, at, query, signal) {
  const object = input({
    value: query.object ?? "",
    required: true,
    placeholder: "The object's ID, which is its record name",
  });
  const user = input({ value: query.user ?? "", required: true, placeholder: "Name or record name" });
  const shown = h("div");
  const run = () => {
    note({ object: object.value.trim(), user: user.value.trim() });
    loading(shown, () => story({ ...at, object: object.value.trim(), user: user.value.trim() }, signal), view, signal);
  };
  const form = h(
    "form",
    {
      on: {
        submit: (event) => {
          event.preventDefault();
          run();
        },
      },
    },
    h(
      "div",
      { class: "stack" },
      h("div", { class: "fields" }, field("Object", object), field("User", user)),
      h("div", null, button("Explain", null, { kind: "first", type: "submit" })),
    ),
  );
  replace(content, h("div", { class: "stack" }, card("Why does it not arrive?", form), shown));
  if (query.object && query.user) run();
  else (query.object ? user : object).focus();
}

/** Puts together what the stores, the record's audit and the events of the devices tell. */
async function story({ container, environment, object, user }, signal) {
  const { explain = [] } = await get("explain", { container, environment, user, object }, { signal });
  if (!explain.length) return { explain, steps: [] };
  const zoneID = explain.find((each) => each.zoneID)?.zoneID;
  const owner = zoneID?.ownerRecordName;
  const { stores = [] } = owner ? await get("stores", { container, environment, owner }, { signal }) : {};
  const known = stores.filter((store) => explain.some((each) => each.store === store.store));
  const audit = owner
    ? await zoneCall("GET", { container, environment, owner }, zoneID.zoneName, "audit", {
        query: { recordName: object },
        signal,
      })
    : {};
  const past = await Promise.all(known.map((store) => pastOf(store, object, signal)));
  return { explain, steps: stepsOf(audit.changes ?? [], past) };
}

async function pastOf(store, object, signal) {
  const [history, events] = await Promise.all([
    storeCall("GET", store, "history", { query: { objectID: object }, signal }),
    storeCall("GET", store, "events", { signal }),
  ]);
  return { store, transactions: history.transactions ?? [], events: events.events ?? [] };
}

/** Each step is `{at, kind, title, words}`, in order of time. */
function stepsOf(changes, past) {
  const nameOf = (id) => past.find(({ store }) => store.store === id)?.store.device || id || "the server";
  const steps = [];
  for (const { store, transactions } of past) {
    for (const transaction of transactions) {
      const words = (transaction.changes ?? [])
        .map((change) => [change.changeType, ...(change.updatedProperties ?? [])].join(" "))
        .join(", ");
      steps.push({
        at: transaction.timestamp,
        rank: 0,
        kind: "accent",
        title: `Saved on ${store.device || store.store}`,
        words,
      });
    }
  }
  for (const change of changes) {
    steps.push({
      at: change.timestamp,
      rank: 1,
      kind: "good",
      title: `Exported from ${nameOf(change.device)}`,
      words: `${change.changeType}, change tag ${change.recordChangeTag}`,
    });
    steps.push(...importsOf(change, past));
  }
  for (const { store, events } of past) {
    for (const event of events.filter((each) => each.succeeded === false)) {
      steps.push({
        at: event.endDate ?? event.startDate,
        rank: 2,
        kind: "bad",
        title: `A failed ${event.type} of ${store.device || store.store}`,
        words: event.error?.reason ?? "",
      });
    }
  }
  return steps.sort((one, other) => Date.parse(one.at) - Date.parse(other.at) || one.rank - other.rank);
}

/** The first import of each other device after the change reached the zone. */
function importsOf(change, past) {
  return past
    .filter(({ store }) => store.store !== change.device)
    .map(({ store, events }) => {
      const first = events.find(
        (event) =>
          event.type === "import" &&
          event.succeeded &&
          event.endDate &&
          Date.parse(event.endDate) >= Date.parse(change.timestamp),
      );
      const device = store.device || store.store;
      return first
        ? {
            at: first.endDate,
            rank: 2,
            kind: "good",
            title: `Imported by ${device}`,
            words: `change tag ${change.recordChangeTag}`,
          }
        : {
            at: change.timestamp,
            rank: 3,
            kind: "warn",
            title: `Waits for ${device}`,
            words: `change tag ${change.recordChangeTag}; the device has not asked since`,
          };
    });
}

function view({ explain, steps }) {
  if (!explain.length)
    return empty(
      "Nobody knows this object",
      "No store of this user has it. Look at the spelling, the container and the environment.",
    );
  return h(
    "div",
    { class: "stack" },
    card(
      "Its way",
      steps.length
        ? h(
            "ol",
            { class: "line-of-time" },
            steps.map((step) =>
              h(
                "li",
                { "data-kind": step.kind },
                h("time", { title: date(step.at) }, time(step.at)),
                h("div", null, h("b", null, step.title), h("p", { class: "soft" }, step.words)),
              ),
            ),
          )
        : empty("No times are kept", "The history of this object has been purged."),
    ),
    h("div", { class: "halves" }, explain.map(standing)),
  );
}

const KINDS = { clean: "good", pending: "warn", exporting: "accent" };

function standing(row) {
  return card(
    row.device || row.store,
    h(
      "div",
      { class: "stack" },
      h("div", null, badge(row.syncState, KINDS[row.syncState] ?? "bad"), row.isDeleted && badge("deleted", "warn")),
      h(
        "ul",
        null,
        (row.reasons ?? []).map((reason) =>
          h("li", null, reason.text, " ", h("small", { class: "soft" }, reason.code)),
        ),
      ),
      facts([
        ["Change tag", row.recordChangeTag],
        ["Pending", row.pendingTransactions?.join(", ")],
        [
          "Conflicts",
          row.conflicts?.length &&
            h("a", { href: link("sync", ["conflicts"], { zone: row.zoneID?.zoneName }) }, String(row.conflicts.length)),
        ],
        ["Last error", row.lastError?.reason],
        ["Tried again", row.throttledUntil && date(row.throttledUntil)],
      ]),
    ),
  );
}
