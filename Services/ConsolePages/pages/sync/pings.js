// The ping tester: listens as a user does, and shows each ping as it comes.

import { h, replace } from "../../core/dom.js";
import { path } from "../../core/api.js";
import { time } from "../../core/format.js";
import { note } from "../../core/router.js";
import { badge, button, card, empty, field, input } from "../../parts/parts.js";

const KEPT = 100;

export function showPings(content, { container, environment }, query, signal) {
  const user = input({ value: query.user ?? "", required: true, placeholder: "A user's record name, such as _8f3c…" });
  const list = h("ul", { class: "feed", "aria-live": "polite", "aria-label": "Pings, the latest first" });
  const said = h("p", { class: "soft", role: "status" }, "Not listening.");
  const nothing = h(
    "div",
    null,
    empty("No ping yet", "Save something on one of the user's devices: the ping says which zone changed."),
  );
  let source = null;
  const start = button("Listen", null, { kind: "first", type: "submit" });

  function stop(words) {
    source?.close();
    source = null;
    replace(start, "Listen");
    replace(said, words);
  }

  function listen() {
    if (source) return stop("Not listening.");
    note({ user: user.value.trim() });
    source = new EventSource(
      `./${path(["api", "as", user.value.trim(), "mirror", "1", container, environment, "pings"])}`,
    );
    replace(start, "Stop");
    replace(said, "Connecting…");
    source.addEventListener("open", () => replace(said, "Listening."));
    source.addEventListener("message", (event) => take(event.data));
    source.addEventListener("error", () => {
      if (source?.readyState === EventSource.CLOSED)
        stop("The notifier refused the stream: look at the record name, and at your role.");
      else replace(said, "The connection is lost. It is tried again.");
    });
    return undefined;
  }

  function take(text) {
    nothing.hidden = true;
    list.prepend(pingRow(text));
    while (list.children.length > KEPT) list.lastChild.remove();
  }

  const form = h(
    "form",
    {
      class: "stack",
      on: {
        submit: (event) => {
          event.preventDefault();
          listen();
        },
      },
    },
    field("User", user),
    h("div", { class: "row" }, start, said),
  );
  replace(
    content,
    h(
      "div",
      { class: "stack" },
      card("Listen to a user's pings", form),
      h("section", { class: "card bare" }, h("header", null, h("h2", null, "Pings")), nothing, list),
    ),
  );
  signal.addEventListener("abort", () => source?.close());
}

const DATABASES = ["public database", "private database", "shared database"];

function pingRow(text) {
  let ping = {};
  try {
    ping = JSON.parse(text);
  } catch {
    ping = {};
  }
  const met = ping.ck?.met ?? ping.ck?.fet ?? {};
  return h(
    "li",
    null,
    h("time", { class: "soft number" }, time(Date.now())),
    h("span", null, badge(ping.ck?.qry ? "query" : "zone", "accent")),
    h(
      "span",
      null,
      h("b", null, met.zid ?? "a database"),
      " ",
      h("code", { class: "small soft" }, met.zoid ?? ""),
      h(
        "details",
        null,
        h("summary", { class: "small soft" }, DATABASES[met.dbs] ?? "as it came"),
        h("pre", { class: "text" }, text),
      ),
    ),
  );
}
