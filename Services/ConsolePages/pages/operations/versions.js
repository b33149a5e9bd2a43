// The version of each process, and how processes on several machines know each other.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import * as live from "../../core/live.js";
import { badge, card, copyable, loading, place, table } from "../../parts/parts.js";
import { natural } from "../home/shards.js";

export function showVersions(content, _query, signal) {
  const list = place();
  replace(
    content,
    h(
      "div",
      { class: "stack" },
      h("section", { class: "card bare" }, h("header", null, h("h2", null, "Processes")), list),
      card(
        "Keys of the bus",
        h(
          "div",
          { class: "stack" },
          h(
            "p",
            { class: "soft" },
            "Processes on several machines know each other by keys. A key's secret stays on its machine, and " +
              "never passes through this page. Make the key of a new process there:",
          ),
          copyable(
            "aquifer bus-key add /etc/aquifer/worker-2.key --role worker --name worker-2 --peers " +
              "/etc/aquifer/bus-peers",
            "the command",
          ),
        ),
      ),
    ),
  );
  loading(
    list,
    async () => ({
      status: await get("status", undefined, { signal }),
      sample: live.last() ?? (await get("sample", undefined, { signal })),
    }),
    view,
    signal,
  );
}

function view({ status, sample }) {
  const versions = new Map((sample?.processes ?? []).map((process) => [process.name, process.version]));
  const rows = (status.members ?? []).toSorted(
    (one, other) => natural(one.role, other.role) || natural(one.name, other.name),
  );
  const distinct = new Set([...versions.values()].filter(Boolean));
  return [
    distinct.size > 1 &&
      h(
        "p",
        { class: "hint padded-line" },
        `${distinct.size} versions run side by side: ${[...distinct].join(", ")}. Finish the upgrade.`,
      ),
    table(
      "Processes",
      [
        ["Process", (row) => h("b", null, row.name)],
        ["Role", (row) => row.role],
        ["Version", (row) => versions.get(row.name) ?? "silent"],
        ["State", (row) => (row.ready ? badge("ready", "good") : badge("not ready", "warn"))],
        ["Bus", (row) => h("code", { class: "small" }, row.endpoint ?? "")],
        ["Admin", (row) => h("code", { class: "small" }, row.adminURL ?? "")],
      ],
      rows,
    ),
  ];
}
