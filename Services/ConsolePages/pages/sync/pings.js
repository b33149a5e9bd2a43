// The pings for a user's devices as the notifiers send them: which zone, why, and how many devices listened.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { brief, date, plural, time } from "../../core/format.js";
import { link, note } from "../../core/router.js";
import { badge, button, empty, field, input, trouble } from "../../parts/parts.js";

const KEPT = 100;
const PAUSE = 2000;

export function showPings(content, { container, environment }, query, signal) {
  const user = input({ value: query.user ?? "", required: true, placeholder: "Name or record name" });
  const list = h("ul", { class: "feed", "aria-live": "polite", "aria-label": "Pings, the latest first" });
  const said = h("p", { class: "soft padded-line", role: "status" }, "Not listening.");
  const failed = h("div");
  const nothing = h("div", null, empty("No ping yet", "Save something on one of the user's devices."));
  const start = button("Listen", null, { kind: "first", type: "submit" });
  const shown = new Set();
  let source = null;
  let retry = 0;

  function stop() {
    clearTimeout(retry);
    source?.close();
    source = null;
    replace(start, "Listen");
    replace(said, "Not listening.");
  }

  function listen() {
    const restriction = { container, environment, user: user.value.trim() };
    replace(failed);
    source = new EventSource(`./api/pings/live?${new URLSearchParams(restriction)}`);
    source.addEventListener("open", () => replace(said, "Listening."));
    source.addEventListener("ping", (event) => take(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      replace(said, "Waiting for the server.");
      // A browser ends a stream for good when the answer is an error; an ordinary call tells which.
      if (source?.readyState === EventSource.CLOSED) retry = setTimeout(() => ask(restriction), PAUSE);
    });
  }

  async function ask(restriction) {
    try {
      await get("pings", { ...restriction, limit: 1 }, { signal });
    } catch (error) {
      if (signal.aborted) return;
      replace(failed, trouble(error));
      if (!error.isPassing) return stop();
    }
    if (source) listen();
  }

  function take(ping) {
    const key = `${ping.notifier} ${ping.at} ${ping.sequence} ${ping.zone} ${ping.subscription}`;
    // A stream that is opened again begins with the latest pings.
    if (shown.has(key)) return;
    shown.add(key);
    nothing.hidden = true;
    list.prepend(pingRow(ping));
    while (list.children.length > KEPT) list.lastChild.remove();
  }

  function begin() {
    note({ user: user.value.trim() });
    shown.clear();
    replace(list);
    nothing.hidden = false;
    replace(start, "Stop");
    replace(said, "Connecting.");
    listen();
  }

  const submit = (event) => {
    event.preventDefault();
    if (source) stop();
    else begin();
  };
  const form = h("form", { class: "row end", on: { submit } }, field("User", user), start);
  replace(
    content,
    h(
      "section",
      { class: "card bare" },
      h("header", null, h("h2", null, "Listen to a user's pings"), form),
      said,
      failed,
      nothing,
      list,
    ),
  );
  if (query.user) begin();
  else user.focus();
  return stop;
}

function pingRow(ping) {
  const { container, environment, owner, zone } = ping;
  const devices = ping.devices.map((device) => brief(device, 20)).join(", ");
  return h(
    "li",
    null,
    h("time", { class: "soft number", title: date(ping.at) }, time(ping.at)),
    h("span", null, badge(ping.listeners ? `told ${ping.listeners}` : "unheard", ping.listeners ? "good" : "warn")),
    h(
      "div",
      null,
      zone
        ? h("a", { href: link("data", [container, environment, owner, zone]) }, zone)
        : h("b", null, "records of the database"),
      h(
        "p",
        { class: "soft small" },
        ping.reason === "zone" ? "the zone changed" : `subscription ${brief(ping.subscription, 24)}`,
        ping.origin && `, saved by ${brief(ping.origin, 20)}`,
        ping.listeners
          ? `; heard by ${devices || plural(ping.listeners, "device")}`
          : "; no device of the user was connected",
      ),
    ),
  );
}
