// The difference between development and production, and the promotion.

import { call } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { card, button, empty, loading, place } from "../../parts/parts.js";
import { note } from "../../parts/dialogs.js";
import { changePreview } from "./preview.js";

export function showDifference(content, { container }, _query, signal) {
  const shown = place();
  const preview = h("div", { "aria-live": "polite" });
  const promote = (isTrial) =>
    call("POST", ["schema", container, "development", "promote"], {
      json: {},
      query: { dryRun: isTrial || undefined },
      signal,
    });
  const fill = () =>
    loading(
      shown,
      () => call("GET", ["schema", container, "development", "diff"], { as: "text", signal }),
      view,
      signal,
    );
  const look = button(
    "See what promotion does",
    () =>
      changePreview(
        preview,
        () => promote(true),
        async () => {
          await promote(false);
          note("Production has development's schema now.");
          replace(preview);
          await fill();
        },
        "Promote to production",
      ),
    { kind: "first" },
  );
  replace(
    content,
    h(
      "div",
      { class: "stack" },
      card(
        "Promotion",
        h(
          "div",
          { class: "stack" },
          h(
            "p",
            { class: "soft" },
            "Production takes what development adds. It refuses what would break records or apps in the field, " +
              "and says each refusal.",
          ),
          h("div", null, look),
          preview,
        ),
      ),
      card("Development against production", shown),
    ),
  );
  fill();
}

function view(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  if (!lines.length) return empty("No difference", "Production has all that development has.");
  return h(
    "div",
    { class: "diff", tabindex: 0, role: "region", "aria-label": "Difference" },
    lines.map((line) => {
      const sign = /^[+-]/.test(line) ? line[0] : "";
      return h(
        "div",
        { "data-sign": sign },
        h("span", null, sign || " "),
        h("span", null, sign ? line.slice(1).trim() : line),
      );
    }),
  );
}
