// Backups and checks of everything stored: their start, their progress, and what they found.

import { post } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { button, card, check, field, input } from "../../parts/parts.js";
import { ask, note } from "../../parts/dialogs.js";
import { backupList } from "./backups.js";
import { followedJob } from "./job.js";

export function showJobs(content, _query, signal) {
  const list = backupList(signal);
  const backup = jobCard(
    "Backup",
    "backup",
    "Copies every shard while the installation serves. Assets on the same disk are links.",
    newBackup,
    "Back up now",
    signal,
    list.lookBeside,
  );
  const scrub = jobCard(
    "Check",
    "scrub",
    "Reads all that is stored: pages, indexes, checksums and counters. It mends nothing by itself.",
    newScrub,
    "Check now",
    signal,
  );
  replace(content, h("div", { class: "stack" }, h("div", { class: "halves" }, backup.view, scrub.view), list.view));
  return () => {
    backup.stop();
    scrub.stop();
    list.stop();
  };
}

function jobCard(title, noun, words, begin, label, signal, ended) {
  const nothing = h("p", { class: "hint" }, `No ${title.toLowerCase()} since the start of the share service.`);
  const job = followedJob(noun, nothing, signal, ended);
  const start = button(
    label,
    async () => {
      if (await begin()) job.look();
    },
    { kind: "first" },
  );
  const view = card(
    title,
    h("div", { class: "stack" }, h("p", { class: "soft" }, words), job.view, h("div", null, start)),
  );
  return { view, stop: job.stop };
}

async function newBackup() {
  const folder = input({ required: true, placeholder: "/var/backups/aquifer-2026-11-25" });
  const started = await ask(
    "Back up",
    [
      field(
        "Folder",
        folder,
        "A folder that does not exist yet, which the share service and all workers see under this path.",
      ),
      h(
        "p",
        { class: "hint" },
        "The backup has no encryption keys and no operator token: keep the key file elsewhere. " +
          "Check it with `aquifer restore` onto an empty folder.",
      ),
    ],
    "Begin",
    () => post("backup", { directory: folder.value.trim() }),
  );
  if (started) note("The backup has begun.");
  return started;
}

async function newScrub() {
  const assets = check("Also read the contents of all assets", false);
  const links = check("Delete link records that lead nowhere, on every device", false);
  const started = await ask("Check everything", [assets.view, links.view], "Begin", () =>
    post("scrub", undefined, {
      query: { assets: assets.box.checked || undefined, mendLinks: links.box.checked || undefined },
    }),
  );
  if (started) note("The check has begun.");
  return started;
}
