// Backups and checks of everything stored: their start, their progress, and what they found.

import { get, post } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, bytes, count, plural } from "../../core/format.js";
import { badge, button, card, check, empty, facts, field, input, trouble } from "../../parts/parts.js";
import { ask, note } from "../../parts/dialogs.js";

const PAUSE = 1000;

export function showJobs(content, _query, signal) {
  const backup = jobCard(
    "Backup",
    "backup",
    "Copies every shard while the installation serves. Assets on the same disk are links.",
    newBackup,
    "Back up now",
    signal,
  );
  const scrub = jobCard(
    "Check",
    "scrub",
    "Reads all that is stored: pages, indexes, checksums and counters. It mends nothing by itself.",
    newScrub,
    "Check now",
    signal,
  );
  replace(content, h("div", { class: "halves" }, backup.view, scrub.view));
  return () => {
    backup.stop();
    scrub.stop();
  };
}

function jobCard(title, noun, words, begin, label, signal) {
  const content = h("div", { "aria-live": "polite" });
  let timer = 0;
  async function look() {
    clearTimeout(timer);
    try {
      const job = await get(noun, undefined, { signal });
      replace(content, jobView(job));
      if (job.state === "running") timer = setTimeout(look, PAUSE);
    } catch (error) {
      if (signal.aborted) return;
      replace(
        content,
        error.status === 404
          ? empty(`No ${title.toLowerCase()} since the start`, "The latest one is shown here, with its progress.")
          : trouble(error, look),
      );
    }
  }
  const start = button(
    label,
    async () => {
      if (await begin()) look();
    },
    { kind: "first" },
  );
  look();
  const view = card(
    title,
    h("div", { class: "stack" }, h("p", { class: "soft" }, words), content, h("div", null, start)),
  );
  return { view, stop: () => clearTimeout(timer) };
}

const KINDS = { running: "accent", done: "good", failed: "bad" };

function jobView(job) {
  const part = job.shards ? Math.round((job.done / job.shards) * 100) : 0;
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row" },
      badge(job.state, KINDS[job.state]),
      h("span", { class: "soft" }, `begun ${ago(job.startedAt)}`),
    ),
    h(
      "div",
      {
        class: "bar",
        role: "progressbar",
        "aria-label": "Progress",
        "aria-valuemin": 0,
        "aria-valuemax": 100,
        "aria-valuenow": part,
      },
      h("i", { vars: { "--part": part } }),
    ),
    facts([
      ["Shards", `${count(job.done)} of ${count(job.shards)}`],
      ["Records", count(job.records)],
      ["Size", job.bytes === undefined ? null : bytes(job.bytes)],
      ["Assets read", job.assets === undefined ? null : count(job.assets)],
      ["Links that lead nowhere", job.looseLinks === undefined ? null : count(job.looseLinks)],
      ["Reason", job.reason],
    ]),
    job.missing?.length > 0 &&
      h(
        "div",
        { class: "trouble" },
        h("b", null, `${plural(job.missing.length, "shard")} could not be copied.`),
        h(
          "ul",
          null,
          job.missing.map((each) =>
            h("li", null, typeof each === "object" ? `Shard ${each.shard}: ${each.reason ?? ""}` : String(each)),
          ),
        ),
      ),
    job.problems?.length > 0 &&
      h(
        "div",
        { class: "trouble" },
        h("b", null, plural(job.problems.length, "problem")),
        h(
          "ul",
          null,
          job.problems.map((each) => h("li", null, each)),
        ),
      ),
  );
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
