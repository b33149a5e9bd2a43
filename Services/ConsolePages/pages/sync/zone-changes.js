// Which zones of a user change, as their devices learn from pings: each change as it becomes visible.

import { h, replace } from "../../core/dom.js";
import { date, time } from "../../core/format.js";
import { recordCall } from "../../core/plane.js";
import { link, note } from "../../core/router.js";
import { badge, button, card, empty, field, input, trouble } from "../../parts/parts.js";

const PAUSE = 1000;
const KEPT = 100;

export function showZoneChanges(content, { container, environment }, query, signal) {
  const user = input({ value: query.user ?? "", required: true, placeholder: "A user's record name" });
  const list = h("ul", { class: "feed", "aria-live": "polite", "aria-label": "Changed zones, the latest first" });
  const said = h("p", { class: "soft", role: "status" }, "Not listening.");
  const failed = h("div");
  const nothing = h(
    "div",
    null,
    empty("No change yet", "Save something on one of the user's devices: its zone appears here, as in the ping."),
  );
  const start = button("Listen", null, { kind: "first", type: "submit" });
  let timer = 0;
  let run = 0;

  function stop() {
    run += 1;
    clearTimeout(timer);
    replace(start, "Listen");
    replace(said, "Not listening.");
  }

  async function listen() {
    run += 1;
    const mine = run;
    const database = { container, environment, owner: user.value.trim() };
    note({ user: database.owner });
    replace(start, "Stop");
    replace(said, "Listening.");
    replace(failed);
    let token = "";
    const look = async () => {
      try {
        // An empty token asks for the present one: what changed before is not told.
        const answer = await recordCall(database, "changes/database", { syncToken: token }, signal);
        if (run !== mine || signal.aborted) return;
        token = answer.syncToken;
        for (const zone of answer.zones ?? []) take(zone, database);
      } catch (error) {
        if (run !== mine || signal.aborted) return;
        replace(failed, trouble(error));
        if (!error.isPassing) return stop();
      }
      timer = setTimeout(look, PAUSE);
    };
    await look();
  }

  function take(zone, database) {
    nothing.hidden = true;
    list.prepend(changeRow(zone, database));
    while (list.children.length > KEPT) list.lastChild.remove();
  }

  const submit = (event) => {
    event.preventDefault();
    if (start.textContent === "Stop") stop();
    else listen();
  };
  const form = h(
    "form",
    { class: "stack", on: { submit } },
    field("User", user, "Asks once a second which zones changed. A ping says the same, and no more."),
    h("div", { class: "row" }, start, said),
    failed,
  );
  replace(
    content,
    h(
      "div",
      { class: "stack" },
      card("Listen to a user's zones", form),
      h("section", { class: "card bare" }, h("header", null, h("h2", null, "Changed zones")), nothing, list),
    ),
  );
  return () => clearTimeout(timer);
}

function changeRow(zone, { container, environment, owner }) {
  const { zoneName } = zone.zoneID;
  const now = Date.now();
  return h(
    "li",
    null,
    h("time", { class: "soft number", title: date(now) }, time(now)),
    h("span", null, zone.deleted ? badge("ended", "warn") : badge("changed", "accent")),
    h("a", { href: link("data", [container, environment, owner, zoneName]) }, zoneName),
  );
}
