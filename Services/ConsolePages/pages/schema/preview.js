// What a change of a schema would do, before it is done: additions, consequences, or every problem with its place.

import { CallError } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { plural } from "../../core/format.js";
import { button, table, trouble } from "../../parts/parts.js";

/** Shows what `trial` answers, and a button that carries the change out. */
export async function changePreview(view, trial, carryOut, label) {
  replace(view, h("p", { class: "soft", role: "status" }, "Checking…"));
  try {
    const answer = await trial();
    const act = button(
      label,
      async () => {
        act.disabled = true;
        try {
          await carryOut();
        } catch (error) {
          replace(view, refusal(error));
        }
      },
      { kind: "first" },
    );
    replace(view, h("div", { class: "stack" }, additions(answer), consequences(answer), h("div", null, act)));
  } catch (error) {
    replace(view, refusal(error));
  }
}

function additions({ added = [] }) {
  if (!added.length) return h("p", { class: "hint" }, "Nothing is added.");
  return h(
    "div",
    { class: "stack" },
    h("b", null, `${plural(added.length, "addition")}.`),
    h(
      "div",
      { class: "diff" },
      added.map((each) =>
        h(
          "div",
          { "data-sign": "+" },
          h("span", null, "+"),
          h("span", null, `${each.recordType}${each.field ? `.${each.field}` : ""}`),
        ),
      ),
    ),
  );
}

/** Parts of the answer that tell what happens to records that are there. */
function consequences(answer) {
  const known = new Set(["added", "modelHash", "entities", "schema", "configuration"]);
  const rest = Object.entries(answer).filter(
    ([key, value]) => !known.has(key) && (!Array.isArray(value) || value.length),
  );
  if (!rest.length) return null;
  return h(
    "div",
    { class: "hint" },
    h("b", null, "Consequences"),
    h("pre", { class: "text", tabindex: 0 }, JSON.stringify(Object.fromEntries(rest), null, 2)),
  );
}

/** All problems with their place, or the refusal as it is. */
export function refusal(error) {
  const problems = error instanceof CallError ? (error.fields.problems ?? error.fields.refused ?? []) : [];
  if (!problems.length) return h("div", { class: "stack" }, trouble(error), details(error));
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "trouble", role: "alert" },
      h("b", null, `${plural(problems.length, "problem")}. Nothing was changed.`),
      h("span", null, "Each one has its place."),
    ),
    table(
      "Problems",
      [
        [
          "Place",
          (row) => h("b", null, [row.entity ?? row.recordType, row.property ?? row.field].filter(Boolean).join(".")),
        ],
        ["Problem", (row) => row.message ?? row.problem ?? row.reason ?? ""],
        ["What helps", (row) => row.suggestion ?? ""],
        ["Rule", (row) => row.rule ?? ""],
      ],
      problems,
    ),
  );
}

function details(error) {
  const { uuid, serverErrorCode, reason, ...rest } = error.fields ?? {};
  if (!Object.keys(rest).length) return null;
  return h("pre", { class: "text", tabindex: 0 }, JSON.stringify(rest, null, 2));
}
