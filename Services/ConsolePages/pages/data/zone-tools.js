// What is done with a whole zone: export, import, restore to a date with a preview, and its end.

import { CallError, PartlyDone } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { zoneCall } from "../../core/plane.js";
import { go, show } from "../../core/router.js";
import { button, check, field, input } from "../../parts/parts.js";
import { ask, confirm, dialog, note } from "../../parts/dialogs.js";
import { differenceView } from "./edit.js";
import { exportLines, fileOf, pagesOf } from "./zone-file.js";

/** Differences that a preview shows. */
const SHOWN = 30;

export function openZoneTools(at) {
  const tool = (label, words, run, kind) =>
    h(
      "div",
      { class: "row" },
      h("div", { class: "rest" }, h("b", null, label), h("p", { class: "soft" }, words)),
      button(
        label,
        () => {
          opened.close();
          run(at);
        },
        { kind },
      ),
    );
  const opened = dialog(
    `Zone ${at.zone}`,
    [
      tool(
        "Export",
        "Download all records as they are now, one JSON line each. Encrypted values are in clear text.",
        exportZone,
      ),
      tool("Import", "Read records of an export into this zone. Names, authors and dates stay.", importZone),
      tool("Restore", "Bring the zone back to a date, after a look at what will change.", restoreZone),
      tool("Purge", "Delete the zone on the server and on every device.", purgeZone, "danger"),
    ],
    [],
  );
}

async function exportZone(at) {
  const said = h("p", { role: "status" }, "The export begins.");
  const opened = dialog("Export", said, []);
  try {
    const lines = await exportLines(at, {}, (number) => replace(said, `${count(number)} lines so far.`));
    const url = URL.createObjectURL(new Blob([await fileOf(lines)], { type: "application/jsonl" }));
    const name = `${at.zone.replace(/[^\w.-]+/g, "_")}.jsonl`;
    const anchor = h("a", { class: "button first", href: url, download: name }, `Save ${name}`);
    replace(
      said,
      h(
        "p",
        null,
        `${plural(lines.length - 1, "line")}. Assets are listed; \`aquifer zone export\` fetches their contents, too.`,
      ),
      anchor,
    );
    anchor.focus();
    opened.closed.then(() => URL.revokeObjectURL(url));
  } catch (error) {
    opened.close();
    note(`${error.message} ${error.remedy ?? ""}`, "bad");
  }
}

async function importZone(at) {
  // Pages that are imported. After a refusal the same file, or its correction, goes on behind them.
  const done = [];
  let imported = 0;
  const file = h("input", { type: "file", accept: ".jsonl,application/jsonl", required: true });
  const merge = check("Replace records of the same name", false);
  const said = h("p", { class: "soft", role: "status" });
  const ended = await ask("Import", [field("An export", file), merge.view, said], "Import", async () => {
    const pages = await pagesOf(await file.files[0].text());
    const total = pages.flat().length;
    let read = 0;
    for (const [number, page] of pages.entries()) {
      const text = page.join("\n");
      if (done[number] !== text) {
        const query = { merge: merge.box.checked || done.length > 0 || undefined };
        try {
          imported += (await zoneCall("POST", at, at.zone, "import", { text, query })).imported ?? 0;
        } catch (error) {
          if (!read || !(error instanceof CallError)) throw error;
          throw new PartlyDone(error, `${plural(read, "record")} before it are imported. Try again to go on there.`);
        }
        done[number] = text;
      }
      read += page.length;
      replace(said, `${count(read)} of ${count(total)}`);
    }
    return true;
  });
  if (!ended) return;
  note(`${plural(imported, "record")} imported.`);
  show();
}

async function restoreZone(at) {
  // What was looked at is what is restored: the state of the zone that the comparison was made with.
  let looked;
  const preview = h("div", { "aria-live": "polite" });
  const forget = () => {
    looked = undefined;
    replace(preview);
  };
  const date = input({ type: "datetime-local", step: "0.001", required: true, on: { input: forget } });
  const look = button("See what will change", async () => {
    if (!date.reportValidity()) return;
    const chosen = date.value;
    forget();
    replace(preview, h("p", { class: "soft" }, "Comparing…"));
    try {
      const found = await difference(at, new Date(`${chosen}Z`).toISOString());
      if (date.value !== chosen) return;
      looked = found.sequence;
      replace(preview, previewView(found.rows));
    } catch (error) {
      replace(preview, h("p", { class: "trouble", role: "alert" }, error.message));
    }
  });
  const done = await ask(
    "Restore to a date",
    [field("Date", date, "UTC"), h("div", null, look), preview],
    "Restore",
    async () => {
      if (looked === undefined) throw new CallError(400, "BAD_REQUEST", "Look first at what will change");
      let body = { sequence: looked };
      let changed = 0;
      for (;;) {
        const answer = await zoneCall("POST", at, at.zone, "restore", { json: body });
        changed += (answer.restored ?? 0) + (answer.deleted ?? 0);
        if (!answer.moreComing) return { changed };
        body = { sequence: answer.sequence, through: answer.through, after: answer.after };
      }
    },
    { wide: true },
  );
  if (!done) return;
  note(`${plural(done.changed ?? 0, "record")} brought back. Devices import the change like any other.`);
  show();
}

/** Compares the zone with what it was, record by record: `{sequence, rows}`, of the past and of what differs. */
async function difference(at, date) {
  const [now, then] = await Promise.all([exportLines(at), exportLines(at, { date })]);
  const read = (lines) =>
    new Map(
      lines
        .map((line) => JSON.parse(line).record)
        .filter(Boolean)
        .map((record) => [record.recordName, record]),
    );
  const [current, past] = [read(now), read(then)];
  const rows = [];
  for (const name of new Set([...current.keys(), ...past.keys()])) {
    const before = current.get(name)?.fields ?? {};
    const after = past.get(name)?.fields ?? {};
    if (JSON.stringify(before) === JSON.stringify(after) && current.has(name) === past.has(name)) continue;
    rows.push({
      name,
      before,
      after,
      kind: !past.has(name) ? "will be deleted" : current.has(name) ? "will change" : "comes back",
    });
  }
  return { sequence: JSON.parse(then[0]).sequence, rows };
}

function previewView(rows) {
  if (!rows.length) return h("p", { class: "hint" }, "Nothing changes: the zone is as it was.");
  return h(
    "div",
    { class: "stack" },
    h("b", null, `${plural(rows.length, "record")} will change.`),
    rows.slice(0, SHOWN).map(({ name, before, after, kind }) => {
      const values = Object.fromEntries(
        Object.keys({ ...before, ...after })
          .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
          .map((key) => [key, after[key] ?? null]),
      );
      return h("div", null, h("code", null, name), ` ${kind}`, differenceView(before, values));
    }),
    rows.length > SHOWN && h("p", { class: "soft" }, `and ${count(rows.length - SHOWN)} more`),
  );
}

async function purgeZone(at) {
  const done = await confirm(
    `Purge ${at.zone}?`,
    "The zone and its records are deleted on the server. Devices learn that the user deleted the zone, and " +
      "delete its objects unless their app chose otherwise.",
    "Purge the zone",
    () => zoneCall("POST", at, at.zone, "end", { json: { reason: "purged" } }),
  );
  if (!done) return;
  note("The zone is purged.");
  go("data", [at.container, at.environment, at.owner]);
}
