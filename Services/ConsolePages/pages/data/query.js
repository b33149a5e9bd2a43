// The query builder: record type, conditions with every comparator, order.

import { h, replace } from "../../core/dom.js";
import { button, choice, field, input, pictureButton } from "../../parts/parts.js";

const EVERY = ["EQUALS", "NOT_EQUALS"];
const ONE_OF = ["IN", "NOT_IN"];
const ORDERED = ["LESS_THAN", "LESS_THAN_OR_EQUALS", "GREATER_THAN", "GREATER_THAN_OR_EQUALS"];
const WORDS = ["CONTAINS_ALL_TOKENS", "CONTAINS_ANY_TOKENS"];
const LISTS = [
  "LIST_CONTAINS",
  "LIST_CONTAINS_ANY",
  "LIST_CONTAINS_ALL",
  "NOT_LIST_CONTAINS",
  "NOT_LIST_CONTAINS_ANY",
  "NOT_LIST_CONTAINS_ALL",
];
const SYSTEM = [
  ["___recordID", "REFERENCE"],
  ["___createTime", "TIMESTAMP"],
  ["___modTime", "TIMESTAMP"],
  ["___createdBy", "REFERENCE"],
  ["___modifiedBy", "REFERENCE"],
  ["___parent", "REFERENCE"],
  ["___share", "REFERENCE"],
];
const TAKES_LIST = /^(NOT_)?(IN|LIST_CONTAINS_ANY|LIST_CONTAINS_ALL)$/;

/** The comparators that a field of this type takes. */
export function comparators(type) {
  if (type.startsWith("LIST<")) {
    const ofStrings =
      type === "LIST<STRING>" ? ["LIST_MEMBER_BEGINS_WITH", "NOT_LIST_MEMBER_BEGINS_WITH", ...WORDS] : [];
    return [...LISTS, ...ofStrings, ...EVERY];
  }
  if (type === "LOCATION") return ["NEAR", ...EVERY, ...ONE_OF];
  if (type === "STRING") return [...EVERY, "BEGINS_WITH", "NOT_BEGINS_WITH", ...WORDS, ...ONE_OF, ...ORDERED];
  return ["INT64", "DOUBLE", "TIMESTAMP"].includes(type) ? [...EVERY, ...ORDERED, ...ONE_OF] : [...EVERY, ...ONE_OF];
}

const spelled = (comparator) => comparator.toLowerCase().replaceAll("_", " ");

/** `types` are of `recordTypes`; `search(query)` is called with the body's `query`, or null for every record. */
export function queryBuilder(types, start, search) {
  const conditions = h("div", { class: "conditions" });
  const order = h("div", { class: "order" });
  const failed = h("div");
  const names = types.map((type) => type.name);
  const type = choice([["", "Every type"], ...names], start && names.includes(start) ? start : "", () => reset());
  const rows = new Set();
  let sort = null;

  const fields = () => {
    const known = types.find((each) => each.name === type.value)?.fields.filter((each) => !each.isSystem) ?? [];
    return [...known.map((each) => [each.name, each.type]), ...SYSTEM];
  };

  function add() {
    const row = condition(fields(), () => {
      rows.delete(row);
      row.view.remove();
    });
    rows.add(row);
    conditions.append(row.view);
    row.focus();
  }

  function reset() {
    rows.clear();
    replace(conditions);
    const isTyped = type.value !== "";
    more.hidden = order.hidden = !isTyped;
    sort = choice([["", "as they are stored"], ...fields().map(([name]) => name)], "");
    const direction = choice(
      [
        ["up", "ascending"],
        ["down", "descending"],
      ],
      "up",
      null,
    );
    sort.direction = direction;
    replace(order, field("Order by", sort), field("Direction", direction));
    send();
  }

  function send() {
    replace(failed);
    try {
      search(type.value === "" ? null : body());
    } catch (error) {
      replace(failed, h("p", { class: "trouble", role: "alert" }, error.message));
    }
  }

  function body() {
    const query = { recordType: type.value, filterBy: [...rows].map((row) => row.read()) };
    if (sort.value) query.sortBy = [{ fieldName: sort.value, ascending: sort.direction.value === "up" }];
    return query;
  }

  const more = button("Add a condition", add, { icon: "plus", kind: "quiet" });
  const run = button("Search", null, { kind: "first", type: "submit" });
  const view = h(
    "form",
    {
      class: "stack",
      on: {
        submit: (event) => {
          event.preventDefault();
          send();
        },
      },
    },
    h("div", { class: "fields" }, field("Record type", type), order),
    conditions,
    failed,
    h("div", { class: "row" }, run, more),
  );
  return { view, start: reset };
}

/** One line: a field, a comparator, a value. `read()` throws a sentence for a value that the type does not take. */
function condition(fields, remove) {
  const types = new Map(fields);
  const name = choice(
    fields.map(([key]) => key),
    fields[0]?.[0],
    () => draw(),
  );
  const comparison = h("div");
  const operand = h("div");
  let comparator = null;
  let value = null;
  let distance = null;

  function draw() {
    comparator = choice(
      comparators(types.get(name.value)).map((each) => [each, spelled(each)]),
      undefined,
      () => drawValue(),
    );
    replace(comparison, field("Comparison", comparator));
    drawValue();
  }

  function drawValue() {
    value = input({
      type: types.get(name.value) === "TIMESTAMP" && !TAKES_LIST.test(comparator.value) ? "datetime-local" : "text",
      step: "1",
    });
    distance = comparator.value === "NEAR" ? input({ inputmode: "decimal", value: "1000" }) : null;
    const hint = TAKES_LIST.test(comparator.value)
      ? "Values with commas between"
      : distance
        ? "Latitude, longitude"
        : undefined;
    replace(operand, field("Value", value, hint), distance && field("Metres", distance));
  }

  function read() {
    const type = types.get(name.value).replace(/^LIST<(.*)>$/, "$1");
    const given = { fieldName: name.value, comparator: comparator.value };
    if (distance) given.distance = numbered(distance.value);
    if (TAKES_LIST.test(comparator.value)) {
      const values = value.value.split(",").map((part) => operandOf(type, part.trim()));
      return { ...given, fieldValue: { type: `${type}_LIST`, value: values } };
    }
    return { ...given, fieldValue: { type, value: operandOf(type, value.value) } };
  }

  draw();
  const view = h(
    "div",
    { class: "condition", role: "group", "aria-label": "Condition" },
    field("Field", name),
    comparison,
    operand,
    pictureButton("close", "Remove the condition", remove),
  );
  return { view, read, focus: () => name.focus() };
}

function operandOf(type, text) {
  if (type === "INT64" || type === "DOUBLE") return numbered(text);
  if (type === "TIMESTAMP") {
    const time = Date.parse(/Z|[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`);
    if (Number.isNaN(time)) throw new Error(`“${text}” is not a date such as 2026-11-20T07:33`);
    return time;
  }
  if (type === "REFERENCE") return { recordName: text, action: "NONE" };
  if (type === "LOCATION") {
    const [latitude, longitude] = text.split(",").map(numbered);
    if (longitude === undefined) throw new Error("A location is a latitude and a longitude with a comma between");
    return { latitude, longitude };
  }
  return text;
}

function numbered(text) {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new Error(`“${text}” is not a number`);
  return value;
}
