// The small parts of pages: buttons, badges, fields, cards, tables, and what stands in for content that is not there.

import { CallError } from "../core/api.js";
import { freshID, h, replace } from "../core/dom.js";
import { icon } from "./icons.js";

export function button(label, click, { kind = "", name, icon: picture, type = "button", ...more } = {}) {
  return h(
    "button",
    { type, class: `button ${kind}`, "aria-label": name, on: click && { click }, ...more },
    picture && icon(picture),
    label,
  );
}

/** A button that shows a picture alone; `name` is read aloud. */
export const pictureButton = (picture, name, click, more) =>
  h(
    "button",
    { type: "button", class: "button square quiet", "aria-label": name, title: name, on: { click }, ...more },
    icon(picture),
  );

export const badge = (text, kind = "") => h("span", { class: "badge", "data-kind": kind }, text);

export const card = (title, ...children) =>
  h("section", { class: "card" }, title && h("header", null, h("h2", null, title)), children);

/** A labelled control. `control` is an input, a select or a textarea. */
export function field(label, control, hint) {
  control.id ||= freshID("field");
  const note = hint && h("small", { id: `${control.id}-hint` }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

export const input = (attributes) =>
  h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...attributes });

export function choice(options, value, change, attributes) {
  const items = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const control = h(
    "select",
    { on: change && { change: () => change(control.value) }, ...attributes },
    items.map(([key, text]) => h("option", { value: key }, text)),
  );
  control.value = value ?? items[0]?.[0] ?? "";
  return control;
}

export function check(label, checked, attributes) {
  const box = h("input", { type: "checkbox", checked, ...attributes });
  return { box, view: h("label", { class: "check" }, box, h("span", null, label)) };
}

export function facts(pairs) {
  const shown = pairs.filter(Boolean).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

/** The head of a page: where it is, its title, a sentence, and what can be done. */
export function head(title, sentence, { trail = [], actions = [] } = {}) {
  const steps = trail.map(([text, href], index) =>
    index ? h("span", null, h("a", { href }, text)) : h("a", { href }, text),
  );
  return h(
    "div",
    { class: "head" },
    h(
      "div",
      null,
      trail.length > 0 && h("nav", { class: "trail", "aria-label": "Path" }, steps),
      h("h1", null, title),
      sentence && h("p", null, sentence),
    ),
    actions.length > 0 && h("div", { class: "actions" }, actions),
  );
}

export function tabs(label, items, current) {
  const views = items.map(([name, text, href]) => h("a", { href, "aria-current": name === current && "page" }, text));
  const shown = views[items.findIndex(([name]) => name === current)];
  requestAnimationFrame(() => shown?.scrollIntoView({ block: "nearest", inline: "center" }));
  return h("nav", { class: "tabs", "aria-label": label }, views);
}

/** A table whose columns are `[title, row => content, {right, sort}]`; on a telephone each row becomes a card. */
export function table(label, columns, rows) {
  const shown = columns.filter(Boolean);
  const cells = (row) =>
    shown.map(([title, content, options = {}]) =>
      h("td", { class: options.class ?? (options.right && "right number"), "data-label": title }, content(row)),
    );
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h(
      "table",
      { class: "cards" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          shown.map(([title, , options = {}]) => h("th", { scope: "col", class: options.right && "right" }, title)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) => h("tr", null, cells(row))),
      ),
    ),
  );
}

export function empty(title, sentence, action) {
  return h("div", { class: "empty" }, icon("drop"), h("b", null, title), sentence && h("p", null, sentence), action);
}

export const waiting = () =>
  h("div", { class: "wait", role: "status", "aria-label": "Loading" }, h("i"), h("i"), h("i"));

/** Says what failed and what to do about it. */
export function trouble(error, retry) {
  const remedy = error instanceof CallError ? error.remedy : "Reload the page. If it happens again, report it.";
  const again = retry && h("div", null, button("Try again", retry, { kind: "quiet" }));
  return h("div", { class: "trouble", role: "alert" }, h("b", null, error.message), h("span", null, remedy), again);
}

/** Fills a place with what `load` answers; shows bars meanwhile, and the trouble with a retry if it fails. */
export async function loading(place, load, view, signal) {
  const slow = setTimeout(() => replace(place, waiting()), 120);
  try {
    const answer = await load();
    if (signal?.aborted) return;
    clearTimeout(slow);
    replace(place, view(answer));
  } catch (error) {
    if (error.name !== "AbortError" && !signal?.aborted) {
      replace(
        place,
        trouble(error, () => loading(place, load, view, signal)),
      );
      if (!(error instanceof CallError)) throw error;
    }
  } finally {
    clearTimeout(slow);
    place.removeAttribute("aria-busy");
  }
}

export function place(...children) {
  return h("div", { "aria-busy": "true" }, children);
}

/** A text in full for those who hover, cut for the line. */
export const cut = (text, attributes) => h("span", { class: "cut", title: text, ...attributes }, text);

/** False where a browser has no clipboard for pages, at an address without TLS, or keeps it from this one. */
const isCopied = (text) =>
  navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  );

export function copyable(text, name) {
  const said = h("span", { class: "unseen", role: "status" });
  const shown = h("code", null, text);
  const copy = pictureButton("copy", `Copy ${name}`, async () => {
    if (await isCopied(text)) return replace(said, "Copied");
    window.getSelection().selectAllChildren(shown);
    return replace(said, "Selected: copy it with Ctrl C");
  });
  return h("div", { class: "secret" }, shown, copy, said);
}
