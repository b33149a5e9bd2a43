// The backups below a folder: when each was made, what it has, and whether its files are still as they were.

import { get, post } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { bytes, count, date, plural } from "../../core/format.js";
import { badge, button, empty, field, input, loading, place, table } from "../../parts/parts.js";
import { note, noteError } from "../../parts/dialogs.js";
import { followedJob } from "./job.js";

const nameOf = (folder) => folder.slice(folder.lastIndexOf("/") + 1);
const parent = (folder) => folder.replace(/\/[^/]*\/*$/, "") || "/";

export function backupList(signal) {
  const folder = input({ required: true, placeholder: "/var/backups" });
  const list = place(empty("Choose a folder", "Its backups are listed as the share service sees them."));
  const job = followedJob("verification", null, signal);
  job.view.classList.add("padded");
  const show = () =>
    loading(
      list,
      () => get("backups", { directory: folder.value.trim().replace(/(.)\/+$/, "$1") }, { signal }),
      ({ backups = [] }) => view(backups, verify),
      signal,
    );

  async function verify(backup) {
    try {
      await post("verification", { directory: backup.directory });
      note("The backup is being read.");
      job.look();
    } catch (error) {
      noteError(error);
    }
  }

  const submit = (event) => {
    event.preventDefault();
    show();
  };
  const form = h(
    "form",
    { class: "row end", on: { submit } },
    field("Folder with backups", folder),
    button("List", null, { type: "submit" }),
  );
  /** Lists anew when a backup has ended. Its folder is the likely one, unless somebody named another. */
  function lookBeside(backup) {
    if (!folder.value && backup.directory) folder.value = parent(backup.directory);
    if (folder.value) show();
  }
  const head = h("header", null, h("h2", null, "Backups"), form);
  const section = h("section", { class: "card bare" }, head, list, job.view);
  return { view: section, lookBeside, stop: job.stop };
}

function view(backups, verify) {
  if (!backups.length) return empty("No backup here", "A folder is a backup when it has a manifest.json.");
  return table(
    "Backups",
    [
      ["Folder", (row) => h("code", null, nameOf(row.directory))],
      ["Made", (row) => date(row.createdAt), { class: "nowrap" }],
      ["Records", (row) => count(row.records), { right: true }],
      ["Size", (row) => bytes(row.bytes), { right: true }],
      ["State", standing],
      [
        "Files",
        (row) =>
          !row.problem && button("Verify", () => verify(row), { kind: "quiet", name: `Verify ${row.directory}` }),
      ],
    ],
    backups.toSorted((one, other) => (other.createdAt ?? 0) - (one.createdAt ?? 0)),
  );
}

function standing(row) {
  if (row.problem) return [badge("no backup", "bad"), " ", row.problem];
  if (!row.isOfThisInstallation) return badge("of another installation", "warn");
  if (row.missing?.length) return badge(`lacks ${plural(row.missing.length, "shard")}`, "bad");
  return badge("whole", "good");
}
