// Schema: record types and models of the container, and the way from development to production.

import { h, replace } from "../../core/dom.js";
import { link } from "../../core/router.js";
import * as state from "../../core/state.js";
import { empty, head, tabs } from "../../parts/parts.js";
import { showDifference } from "./difference.js";
import { showModels } from "./models.js";
import { showRules } from "./rules.js";
import { showText, showTypes } from "./types.js";

const VIEWS = {
  types: ["Types", showTypes],
  text: ["Text", showText],
  diff: ["To production", showDifference],
  models: ["Models", showModels],
  rules: ["Uniqueness", showRules],
};

export function show(outlet, [name = "types"], query, signal) {
  const at = state.scope();
  if (!at.container) {
    replace(outlet, head("Schema"), empty("No container yet", "A schema belongs to a container."));
    return undefined;
  }
  const content = h("div");
  const known = VIEWS[name] ? name : "types";
  replace(
    outlet,
    head("Schema", `Record types of ${at.container}, ${at.environment}.`),
    tabs(
      "Schema",
      Object.entries(VIEWS).map(([key, [text]]) => [key, text, link("schema", key === "types" ? [] : [key])]),
      known,
    ),
    content,
  );
  return VIEWS[known][1](content, at, query, signal);
}
