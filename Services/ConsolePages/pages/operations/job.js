// A job of the share service: its progress, and what it found.

import { get } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { ago, bytes, count, plural } from "../../core/format.js";
import { badge, facts, trouble } from "../../parts/parts.js";

const PAUSE = 1000;

/**
 * Shows the latest job of a kind while it runs. `nothing` stands for none; null: the view is hidden then. `ended` gets
 * each job that is seen to have ended.
 */
export function followedJob(noun, nothing, signal, ended = () => {}) {
  const view = h("div", { "aria-live": "polite", hidden: !nothing });
  let timer = 0;
  async function look() {
    clearTimeout(timer);
    try {
      const job = await get(noun, undefined, { signal });
      if (signal.aborted) return;
      view.hidden = false;
      replace(view, jobView(job));
      if (job.state === "running") timer = setTimeout(look, PAUSE);
      else ended(job);
    } catch (error) {
      if (!signal.aborted) replace(view, error.status === 404 ? nothing : trouble(error, look));
    }
  }
  look();
  return { view, look, stop: () => clearTimeout(timer) };
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
      ["Folder", job.directory && h("code", null, job.directory)],
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
