// Operations: backups and checks, logs, slow requests, and the versions of all processes.

import { h, replace } from "../../core/dom.js";
import { link } from "../../core/router.js";
import * as state from "../../core/state.js";
import { empty, head, tabs } from "../../parts/parts.js";
import { showJobs } from "./jobs.js";
import { showLogs, showSlow } from "./logs.js";
import { showVersions } from "./versions.js";

const VIEWS = {
  backups: ["Backups", showJobs],
  logs: ["Logs", showLogs],
  slow: ["Slow requests", showSlow],
  versions: ["Versions and keys", showVersions],
};

export function show(outlet, [name = "backups"], query, signal) {
  if (!state.isOperator()) {
    replace(outlet, head("Operations"), empty("For operators", "This page is about the whole installation."));
    return undefined;
  }
  const content = h("div");
  const known = VIEWS[name] ? name : "backups";
  replace(
    outlet,
    head("Operations", "The whole installation: its copies, its logs, its processes."),
    tabs(
      "Operations",
      Object.entries(VIEWS).map(([key, [text]]) => [key, text, link("operations", key === "backups" ? [] : [key])]),
      known,
    ),
    content,
  );
  return VIEWS[known][1](content, query, signal);
}
