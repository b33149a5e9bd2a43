// Explain: the way of one object, from the save on one device to the import on each other one.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { date, time } from "../../core/format.js";
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
  const given = () => ({ object: object.value.trim(), user: user.value.trim() });
  const run = () => {
    note(given());
    loading(shown, () => get("explain", { ...at, ...given() }, { signal }), view, signal);
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

const NAMES = {
  saved: ["accent", "Saved on"],
  exported: ["good", "Exported from"],
  pinged: ["accent", "Pinged"],
  imported: ["good", "Imported by"],
  failed: ["bad", "A failure of"],
  awaited: ["warn", "Waits for"],
};

function stepView(step) {
  const [kind, words] = NAMES[step.step] ?? ["", step.step];
  const facts = [
    step.transaction && `transaction ${step.transaction}`,
    step.changeType,
    step.properties?.join(" "),
    step.isDeleted && "a deletion",
    step.recordChangeTag && `change tag ${step.recordChangeTag}`,
    step.reason,
  ];
  return h(
    "li",
    { "data-kind": kind },
    h("time", { title: step.at && date(step.at) }, step.at ? time(step.at) : "not yet"),
    h(
      "div",
      null,
      h("b", null, `${words} ${step.device || step.store || "the server"}`),
      h("p", { class: "soft" }, facts.filter(Boolean).join(", ")),
    ),
  );
}

function view({ explain = [], way = [] }) {
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
      way.length
        ? h("ol", { class: "line-of-time" }, way.map(stepView))
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
