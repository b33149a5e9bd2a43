// Log lines of all processes: by the name of a request, by process, by level, and those of slow requests.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { date, time } from "../../core/format.js";
import { link, note } from "../../core/router.js";
import { badge, button, check, choice, empty, field, input, loading, place } from "../../parts/parts.js";
import { silentHint } from "../data/data.js";

const PAUSE = 2000;
const LIMIT = 200;

export function showLogs(content, query, signal) {
  const list = place();
  const request = input({
    type: "search",
    value: query.request ?? "",
    placeholder: "X-Request-ID, or the uuid of an error",
  });
  const process = input({ type: "search", value: query.process ?? "", placeholder: "worker-1" });
  const level = choice(["debug", "info", "warning", "error"], query.level ?? "info");
  const follows = check("Follow", false);
  let timer = 0;
  const asked = () => ({
    request: request.value.trim(),
    process: process.value.trim(),
    level: level.value,
    limit: LIMIT,
  });
  const fill = () => {
    note(asked());
    return loading(list, () => get("logs", asked(), { signal }), lines, signal);
  };
  const follow = async () => {
    if (!follows.box.checked || signal.aborted) return;
    const answer = await get("logs", asked(), { signal }).catch(() => null);
    if (answer) replace(list, lines(answer));
    timer = setTimeout(follow, PAUSE);
  };
  follows.box.addEventListener("change", follow);
  const form = h(
    "form",
    {
      class: "padded",
      on: {
        submit: (event) => {
          event.preventDefault();
          fill();
        },
      },
    },
    h(
      "div",
      { class: "fields" },
      field("Name of the request", request),
      field("Process", process),
      field("Least level", level),
    ),
    h("div", { class: "row form-foot" }, button("Search", null, { kind: "first", type: "submit" }), follows.view),
  );
  replace(content, h("section", { class: "card bare" }, form, list));
  fill();
  return () => clearTimeout(timer);
}

export function showSlow(content, _query, signal) {
  const list = place();
  const fill = () => loading(list, () => get("logs", { slow: true, limit: LIMIT }, { signal }), lines, signal);
  replace(
    content,
    h(
      "section",
      { class: "card bare" },
      h("header", null, h("h2", null, "Slow requests"), button("Look again", fill)),
      list,
    ),
  );
  fill();
}

const KINDS = { error: "bad", warning: "warn", info: "accent" };

function lines({ lines: rows = [], silent }) {
  if (!rows.length)
    return [
      silentHint(silent),
      empty("No lines", "The processes keep the lines of the last hours, and nothing matches."),
    ];
  return [
    silentHint(silent),
    h(
      "ul",
      { class: "feed logs", tabindex: 0, "aria-label": "Log lines, the latest first" },
      rows.toReversed().map(line),
    ),
  ];
}

function line(row) {
  return h(
    "li",
    null,
    h("time", { class: "soft number", title: date(row.at) }, time(row.at)),
    h("span", null, badge(row.level, KINDS[row.level])),
    h(
      "div",
      null,
      h("b", null, row.event),
      " ",
      h("span", { class: "small soft" }, row.process, " "),
      row.request &&
        h(
          "a",
          { class: "mono small", href: link("operations", ["logs"], { request: row.request, level: "debug" }) },
          row.request,
        ),
      h(
        "div",
        { class: "logged" },
        Object.entries(row.facts ?? {}).map(([name, value]) =>
          h(
            "span",
            null,
            h("small", { class: "soft" }, name),
            " ",
            h("span", { class: "mono small" }, typeof value === "object" ? JSON.stringify(value) : String(value)),
          ),
        ),
      ),
    ),
  );
}
