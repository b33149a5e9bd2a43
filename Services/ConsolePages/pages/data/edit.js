// Making and changing a record, with the difference before it is saved.

import { CallError } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { modify } from "../../core/plane.js";
import { go, show } from "../../core/router.js";
import { choice, field, input } from "../../parts/parts.js";
import { ask, note } from "../../parts/dialogs.js";
import { isEditable, valueEditor, valueText } from "./values.js";

/** Asks for type, name and fields, and goes to the new record. */
export async function createRecord(at, types) {
  const fields = h("div", { class: "stack" });
  const name = input({ placeholder: "The server draws one", maxlength: 255 });
  let editors = new Map();
  const type = choice(
    types.map((each) => each.name),
    (types.find((each) => each.name !== "CDMR") ?? types[0])?.name,
    () => draw(),
  );
  const difference = h("div");
  const draw = () => {
    editors = editorsOf(types.find((each) => each.name === type.value)?.fields ?? [], {});
    replace(fields, viewsOf(editors));
    tell();
  };
  const tell = () => replace(difference, differenceView({}, read(editors, true)));
  fields.addEventListener("input", tell);
  draw();
  const made = await ask(
    "New record",
    [h("div", { class: "fields" }, field("Record type", type), field("Record name", name)), fields, difference],
    "Create",
    () =>
      modify(at, at.zone, "create", {
        recordType: type.value,
        recordName: name.value.trim() || undefined,
        fields: read(editors),
      }),
    { wide: true },
  );
  if (!made) return;
  note("The record is saved.");
  go("data", [at.container, at.environment, at.owner, at.zone, made.recordName]);
}

/** Asks for other values; only fields that differ are sent, on the condition that the record is still the same. */
export async function editRecord(at, record, type) {
  const known = type?.fields ?? Object.entries(record.fields).map(([name, { type: kind }]) => ({ name, type: kind }));
  const editors = editorsOf(known, record.fields);
  const difference = h("div", { "aria-live": "polite" });
  // A control may spell a value in another way than the record does, so a field counts only when it was touched.
  const wanted = (isTrial) => changed(record.fields, read(touched(editors), isTrial));
  const tell = () => replace(difference, differenceView(record.fields, wanted(true)));
  const fields = h("div", { class: "stack", on: { input: tell } }, viewsOf(editors));
  tell();
  const saved = await ask(
    `Edit ${record.recordName}`,
    [fields, difference],
    "Save",
    () => {
      const values = wanted(false);
      if (!Object.keys(values).length) return true;
      return modify(at, at.zone, "update", {
        recordType: record.recordType,
        recordName: record.recordName,
        recordChangeTag: record.recordChangeTag,
        fields: values,
      });
    },
    { wide: true },
  );
  if (!saved) return;
  note("The record is saved.");
  show();
}

function editorsOf(fields, values) {
  const editable = fields.filter((each) => !each.isSystem && !each.isEncrypted && isEditable(each.type));
  return new Map(
    editable.map((each) => {
      const editor = valueEditor(each.type, values[each.name]);
      return [each.name, { ...editor, type: each.type, start: editor?.control.value }];
    }),
  );
}

const touched = (editors) => new Map([...editors].filter(([, { control, start }]) => control?.value !== start));

const viewsOf = (editors) =>
  [...editors].map(([name, { control, type, hint }]) =>
    control
      ? field(name, control, hint ? `${type}, ${hint}` : type)
      : h("p", { class: "hint" }, `${name}: this value can't be edited in a browser.`),
  );

/** The values by field name; a bad one is thrown as a sentence with its field, or left out. */
function read(editors, isTrial = false) {
  const values = {};
  for (const [name, editor] of editors) {
    try {
      values[name] = editor.read();
    } catch (error) {
      if (!isTrial) throw new CallError(400, "BAD_REQUEST", `${name}: ${error.message}`);
    }
  }
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

/** What differs from `before`; null empties a field. */
function changed(before, after) {
  const values = {};
  for (const [name, value] of Object.entries(after)) {
    if (JSON.stringify(before[name]?.value ?? null) === JSON.stringify(value?.value ?? null)) continue;
    values[name] = value ?? { value: null, type: before[name]?.type };
  }
  return values;
}

export function differenceView(before, after) {
  const lines = Object.entries(after).flatMap(([name, value]) => {
    const old = valueText(before[name]);
    const next = valueText(value);
    return [old !== "" && ["-", `${name}: ${old}`], next !== "" && ["+", `${name}: ${next}`]].filter(Boolean);
  });
  if (!lines.length) return h("p", { class: "hint" }, "Nothing differs yet.");
  return h(
    "div",
    { class: "diff", role: "group", "aria-label": "What will change" },
    lines.map(([sign, text]) => h("div", { "data-sign": sign }, h("span", null, sign), h("span", null, text))),
  );
}
