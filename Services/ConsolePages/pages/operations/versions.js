// The version of each process, and how processes on several machines know each other.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago } from "../../core/format.js";
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
      h(
        "p",
        { class: "small soft" },
        `The plots are drawn by D3 ${globalThis.d3.version}. `,
        h("a", { href: "./library/d3.licence" }, "Its licence"),
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
  const known = new Map((sample?.processes ?? []).map((process) => [process.name, process]));
  const rows = (status.members ?? []).toSorted(
    (one, other) => natural(one.role, other.role) || natural(one.name, other.name),
  );
  const distinct = new Set([...known.values()].map((process) => process.version).filter(Boolean));
  const hasKeys = [...known.values()].some((process) => process.busKey);
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
        ["Version", (row) => known.get(row.name)?.version ?? "silent"],
        ["State", (row) => (row.ready ? badge("ready", "good") : badge("not ready", "warn"))],
        hasKeys && ["Bus key", (row) => keyView(known.get(row.name)?.busKey)],
        ["Bus", (row) => h("code", { class: "small" }, row.endpoint ?? "")],
        ["Admin", (row) => h("code", { class: "small" }, row.adminURL ?? "")],
      ],
      rows,
    ),
  ];
}

/** The beginning of the public key, and its age. */
const keyView = (key) =>
  key ? [h("code", { class: "small" }, `${key.identifier}…`), ` made ${ago(key.madeAt)}`] : "without a key";
