// Record types with their fields, indexes and grants, and the same as a text that can be changed.

import { call } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { plural } from "../../core/format.js";
import { link } from "../../core/router.js";
import { recordTypes } from "../../core/schema-text.js";
import { badge, button, card, check, empty, field, input, loading, place, table } from "../../parts/parts.js";
import { note } from "../../parts/dialogs.js";
import { changePreview } from "./preview.js";

const read = ({ container, environment }, signal) =>
  call("GET", ["schema", container, environment], { as: "text", signal });

export function showTypes(content, at, _query, signal) {
  const list = place();
  replace(content, list);
  loading(
    list,
    () => read(at, signal),
    (text) => {
      const types = recordTypes(text);
      if (!types.length)
        return empty(
          "No record types yet",
          "Push a model, or write a schema: development takes types as apps save them, too.",
          h("a", { class: "button first", href: link("schema", ["models"]) }, "Push a model"),
        );
      const system = check("System fields", false);
      const words = input({ type: "search", placeholder: "Type or field" });
      const shown = h("div", { class: "stack" });
      const draw = () => {
        const wanted = words.value.trim().toLowerCase();
        const found = types.filter(
          (type) =>
            !wanted || `${type.name} ${type.fields.map((each) => each.name).join(" ")}`.toLowerCase().includes(wanted),
        );
        replace(
          shown,
          found.length ? found.map((type) => typeCard(type, system.box.checked)) : empty("No type of this name"),
        );
      };
      words.addEventListener("input", draw);
      system.box.addEventListener("change", draw);
      draw();
      return h(
        "div",
        { class: "stack" },
        h(
          "div",
          { class: "row end" },
          h("div", null, field("Filter", words)),
          system.view,
          h("span", { class: "soft" }, plural(types.length, "type")),
        ),
        shown,
      );
    },
    signal,
  );
}

function typeCard(type, showsSystem) {
  const fields = type.fields.filter((each) => showsSystem || !each.isSystem);
  return h(
    "section",
    { class: "card bare type" },
    h(
      "header",
      null,
      h("h2", null, type.name),
      h("span", { class: "soft small" }, plural(fields.length, "field")),
      h("a", { class: "button quiet", href: link("data") }, "Data"),
    ),
    table(
      type.name,
      [
        ["Field", (each) => h("span", null, each.name, " ", each.isEncrypted && badge("encrypted", "accent"))],
        ["Type", (each) => h("code", null, each.type)],
        [
          "Indexes",
          (each) =>
            each.indexes.length > 0 &&
            h(
              "span",
              { class: "row" },
              each.indexes.map((name) => badge(name.toLowerCase())),
            ),
        ],
      ],
      fields,
    ),
    h(
      "p",
      { class: "soft small padded-line" },
      type.grants.length ? `Grants: ${type.grants.join(" · ")}` : "No grants",
    ),
  );
}

export function showText(content, at, _query, signal) {
  const shown = place();
  replace(content, shown);
  loading(
    shown,
    () => read(at, signal),
    (text) => {
      const editor = h("textarea", { rows: 26, value: text, spellcheck: "false" });
      const hides = check("Also change the types of fields that records have", false);
      const preview = h("div", { "aria-live": "polite" });
      // What was looked at is what is saved: another text or choice needs another look.
      for (const control of [editor, hides.box]) control.addEventListener("input", () => replace(preview));
      const look = button("See what will change", () => {
        const wanted = { text: editor.value, changeTypes: hides.box.checked || undefined };
        const send = (isTrial) =>
          call("PUT", ["schema", at.container, at.environment], {
            text: wanted.text,
            signal,
            query: { dryRun: isTrial || undefined, changeTypes: wanted.changeTypes },
          });
        return changePreview(
          preview,
          () => send(true),
          async () => {
            await send(false);
            note("The schema is saved.");
            replace(preview);
          },
          "Save the schema",
        );
      });
      return card(
        "The schema as a text",
        h(
          "div",
          { class: "stack" },
          field("CloudKit's schema language", editor),
          h("div", { class: "row" }, look, hides.view),
          preview,
        ),
      );
    },
    signal,
  );
}
