// Dialogs and notices: asking before a change, forms that show their refusal in place, and short notes of success.

import { CallError } from "../core/api.js";
import { freshID, h, replace } from "../core/dom.js";
import { button, pictureButton, trouble } from "./parts.js";

let notes = null;

/** The region where notes appear and are read aloud. */
export function noteRegion() {
  notes = h("div", { class: "notes", role: "status", "aria-live": "polite" });
  return notes;
}

export function note(text, kind = "good") {
  if (!notes) return;
  const view = h(
    "div",
    { class: "note", "data-kind": kind },
    h("p", null, text),
    pictureButton("close", "Dismiss", () => view.remove()),
  );
  notes.append(view);
  while (notes.children.length > 3) notes.firstChild.remove();
  setTimeout(() => view.remove(), kind === "bad" ? 12000 : 5000);
}

export function noteError(error) {
  note(error instanceof CallError ? `${error.message} ${error.remedy}` : String(error), "bad");
}

/** Opens a dialog; the promise is fulfilled when it closes. Escape closes it, and focus returns to where it was. */
export function dialog(title, body, actions, { wide = false } = {}) {
  const before = document.activeElement;
  const name = freshID("dialog");
  const view = h(
    "dialog",
    { class: wide ? "wide" : "", "aria-labelledby": name },
    h(
      "header",
      null,
      h("h2", { id: name }, title),
      pictureButton("close", "Close", () => view.close()),
    ),
    h("div", { class: "body" }, body),
    actions.length > 0 && h("footer", null, actions),
  );
  document.body.append(view);
  const closed = new Promise((resolve) => {
    view.addEventListener("close", () => {
      view.remove();
      before?.focus?.();
      resolve();
    });
  });
  view.showModal();
  return { view, closed, close: () => view.close() };
}

/**
 * Asks with a form. `send` does the change and may throw: the form then stays open and says why, and what was typed
 * stays. The promise is what `send` answered, or undefined if the form was closed.
 */
export async function ask(title, body, label, send, { danger = false, wide = false } = {}) {
  let answer;
  const failed = h("div");
  const form = h("form", { id: freshID("form"), class: "stack" }, body, failed);
  const submit = button(label, null, { kind: danger ? "danger" : "first", type: "submit", form: form.id });
  const cancel = button("Cancel", () => opened.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    replace(failed);
    try {
      answer = (await send()) ?? true;
      opened.close();
    } catch (error) {
      replace(failed, trouble(error));
      if (!(error instanceof CallError)) throw error;
    } finally {
      submit.disabled = false;
    }
  });
  const opened = dialog(title, form, [cancel, submit], { wide });
  const first = form.querySelector("input, select, textarea");
  (first ?? (danger ? cancel : submit)).focus();
  await opened.closed;
  return answer;
}

/** Asks before something that cannot be taken back. */
export const confirm = (title, sentence, label, send) =>
  ask(title, h("p", null, sentence), label, send, { danger: true });

/** Shows a secret that the server tells once. */
export function showSecret(title, sentence, view) {
  const done = button("Done", () => opened.close(), { kind: "first" });
  const opened = dialog(title, [h("p", null, sentence), view], [done]);
  return opened.closed;
}
