// The command palette: Ctrl-K, then a few letters of a page, a user, a zone or a record.

import { get } from "../core/api.js";
import { freshID, h, replace } from "../core/dom.js";
import { brief } from "../core/format.js";
import { zonesOf } from "../core/plane.js";
import { go } from "../core/router.js";
import * as state from "../core/state.js";

const PAGES = [
  ["Home", "home"],
  ["Data", "data"],
  ["Sync: stores", "sync"],
  ["Sync: quarantine", "sync", ["quarantine"]],
  ["Sync: conflicts", "sync", ["conflicts"]],
  ["Sync: explain an object", "sync", ["explain"]],
  ["Sync: live events", "sync", ["events"]],
  ["Sync: pings", "sync", ["pings"]],
  ["Schema: types", "schema"],
  ["Schema: development and production", "schema", ["diff"]],
  ["Schema: models", "schema", ["models"]],
  ["Schema: uniqueness", "schema", ["rules"]],
  ["People: users", "people", [], true],
  ["People: shares", "people", ["shares"]],
  ["People: tokens and keys", "people", ["tokens"]],
  ["People: roles", "people", ["roles"]],
  ["People: sessions", "people", ["sessions"]],
  ["People: woken devices", "people", ["registrations"]],
  ["People: sign-ins", "people", ["sign-ins"]],
  ["People: mail", "people", ["mail"], true],
  ["People: audit", "people", ["audit"]],
  ["Operations: backups", "operations", [], true],
  ["Operations: logs", "operations", ["logs"], true],
  ["Operations: slow requests", "operations", ["slow"], true],
  ["Operations: versions", "operations", ["versions"], true],
];

let opened = null;

export function openPalette() {
  if (opened?.open) return;
  const before = document.activeElement;
  const name = freshID("choices");
  const list = h("ul", { id: name, role: "listbox", "aria-label": "Places" });
  const box = h("input", {
    type: "text",
    role: "combobox",
    "aria-controls": name,
    "aria-expanded": "true",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "A page, a user, a zone, a record…",
    "aria-label": "Jump to",
  });
  const view = h(
    "dialog",
    { class: "palette", "aria-label": "Jump to" },
    box,
    list,
    h("p", null, "↑ ↓ to choose, Enter to go, Escape to close"),
  );
  opened = view;
  let rows = [];
  let at = 0;
  let search = null;

  const choose = (row) => {
    view.close();
    go(...row.to);
  };
  const draw = () => {
    at = Math.max(0, Math.min(at, rows.length - 1));
    replace(
      list,
      rows.length
        ? rows.map((row, index) =>
            h(
              "li",
              {
                role: "option",
                id: `${name}-${index}`,
                "aria-selected": index === at ? "true" : "false",
                on: { click: () => choose(row) },
              },
              h("span", null, row.text),
              h("small", null, row.kind),
            ),
          )
        : h("li", { role: "option", "aria-selected": "false" }, h("span", null, "Nothing of this name.")),
    );
    box.setAttribute("aria-activedescendant", rows.length ? `${name}-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const look = async () => {
    search?.abort();
    const mine = new AbortController();
    search = mine;
    const text = box.value.trim();
    rows = matchingPages(text);
    at = 0;
    draw();
    if (!text) return;
    const found = await Promise.all([users(text, mine.signal), zones(text, mine.signal)]);
    if (mine.signal.aborted) return;
    rows = [...rows, ...found.flat(), ...records(text)];
    draw();
  };
  box.addEventListener("input", look);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      at += step;
      draw();
    } else if (event.key === "Enter" && rows[at]) {
      event.preventDefault();
      choose(rows[at]);
    }
  });
  view.addEventListener("close", () => {
    search?.abort();
    view.remove();
    before?.focus?.();
  });
  document.body.append(view);
  view.showModal();
  look();
}

function matchingPages(text) {
  const words = text.toLowerCase();
  return PAGES.filter(
    ([title, , , operatorOnly]) => (!operatorOnly || state.isOperator()) && title.toLowerCase().includes(words),
  )
    .slice(0, words ? 5 : PAGES.length)
    .map(([title, page, place]) => ({ text: title, kind: "page", to: [page, place] }));
}

async function users(text, signal) {
  const { container } = state.scope();
  const query = { search: text, limit: 6, container: state.isOperator() ? undefined : container };
  const answer = await get("users", query, { signal }).catch(() => ({}));
  return (answer.users ?? []).map((user) => ({
    text: user.name,
    kind: `user ${brief(user.userRecordName)}`,
    to: state.isOperator() ? ["people", ["users", user.userRecordName]] : databasePlace(user.userRecordName),
  }));
}

const databasePlace = (owner) => ["data", [state.scope().container, state.scope().environment, owner]];

async function zones(text, signal) {
  const { container, environment } = state.scope();
  if (!container) return [];
  const answer = await zonesOf({ container, environment }, signal).catch(() => ({ zones: [] }));
  const words = text.toLowerCase();
  return answer.zones
    .filter((zone) => zone.zone.toLowerCase().includes(words))
    .slice(0, 6)
    .map((zone) => ({
      text: zone.zone,
      kind: `zone of ${brief(zone.owner)}`,
      to: ["data", [container, environment, zone.owner, zone.zone]],
    }));
}

/** A name with dashes may be an object's: the page looks for it in the stores of a user. */
function records(text) {
  if (!/^[0-9a-f-]{8,}$/i.test(text)) return [];
  return [{ text, kind: "explain this object", to: ["sync", ["explain"], { object: text }] }];
}
