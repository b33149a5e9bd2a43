// The set-ups, exports and imports of all devices as they happen.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { brief, date, instant, time } from "../../core/format.js";
import { badge, button, empty, trouble } from "../../parts/parts.js";

const PAUSE = 1500;
const KEPT = 200;

export function showEvents(content, { container, environment }, _query, signal) {
  const list = h("ul", { class: "feed", tabindex: 0, "aria-label": "Events, the latest first" });
  const nothing = h("div", null, empty("Quiet", "Events appear here as soon as a device saves or imports."));
  const failed = h("div");
  const names = new Set();
  let isHeld = false;
  let timer = 0;
  let after;
  const hold = button("Hold", () => {
    isHeld = !isHeld;
    replace(hold, isHeld ? "Go on" : "Hold");
  });

  async function look() {
    try {
      if (!isHeld && !document.hidden)
        take((await get("events", { container, environment, after }, { signal })).events ?? []);
      replace(failed);
    } catch (error) {
      if (signal.aborted) return;
      replace(failed, trouble(error));
    }
    timer = setTimeout(look, PAUSE);
  }

  function take(events) {
    const fresh = events.filter((event) => !names.has(`${event.store}${event.identifier}${event.endedAt ?? ""}`));
    for (const event of fresh.sort((one, other) => moment(one) - moment(other))) {
      names.add(`${event.store}${event.identifier}${event.endedAt ?? ""}`);
      after = Math.max(after ?? 0, moment(event) - 1);
      list.prepend(eventRow(event));
    }
    while (list.children.length > KEPT) list.lastChild.remove();
    nothing.hidden = list.children.length > 0;
  }

  replace(
    content,
    h("section", { class: "card bare" }, h("header", null, h("h2", null, "Live events"), hold), failed, nothing, list),
  );
  look();
  return () => clearTimeout(timer);
}

const moment = (event) => event.endedAt ?? event.startedAt;

/** A row of a feed: `startedAt` and `endedAt` are dates of either spelling. */
export function eventRow(event) {
  const started = instant(event.startedAt);
  const ended = instant(event.endedAt);
  const isUnderWay = !ended;
  const counts = [
    event.savedCount && `${event.savedCount} saved`,
    event.deletedCount && `${event.deletedCount} deleted`,
  ]
    .filter(Boolean)
    .join(", ");
  const error =
    typeof event.error === "string" ? event.error : (event.error?.reason ?? event.error?.partialErrors?.[0]?.reason);
  return h(
    "li",
    null,
    h("time", { class: "soft number", title: date(event.startedAt) }, time(event.startedAt)),
    h("span", null, badge(event.type, isUnderWay ? "accent" : event.succeeded === false ? "bad" : "good")),
    h(
      "span",
      null,
      event.user && h("code", { class: "small soft" }, `${brief(event.user)} · ${brief(event.store)} `),
      isUnderWay ? "under way" : counts || (event.succeeded === false ? "" : "nothing to do"),
      ended && ended - started > 0 && h("small", { class: "soft" }, ` ${ended - started} ms`),
      error && h("p", null, error),
    ),
  );
}
