// People: users, what they share, and the credentials of apps.

import { h, replace } from "../../core/dom.js";
import { link } from "../../core/router.js";
import * as state from "../../core/state.js";
import { head, tabs } from "../../parts/parts.js";
import { showAudit } from "./audit.js";
import { showTokens } from "./credentials.js";
import { showMail } from "./mail.js";
import { showRegistrations } from "./registrations.js";
import { showRoles } from "./roles.js";
import { showSessions } from "./sessions.js";
import { showShares } from "./shares.js";
import { showSignIns } from "./sign-ins.js";
import { showUser } from "./user.js";
import { showUsers } from "./users.js";

/** The last value is true for what only operators see. */
const VIEWS = {
  users: ["Users", showUsers],
  shares: ["Shares", showShares],
  tokens: ["Tokens and keys", showTokens],
  roles: ["Roles", showRoles],
  sessions: ["Sessions", showSessions],
  registrations: ["Woken devices", showRegistrations],
  "sign-ins": ["Sign-ins", showSignIns],
  mail: ["Mail", showMail, true],
  audit: ["Audit", showAudit],
};

export function show(outlet, [name = "users", detail], query, signal) {
  const at = state.scope();
  if (name === "users" && detail) return showUser(outlet, detail, signal);
  const content = h("div");
  const views = Object.entries(VIEWS).filter(([, view]) => !view[2] || state.isOperator());
  const known = views.some(([key]) => key === name) ? name : "users";
  replace(
    outlet,
    head("People", "Who has data here, what they share with one another, and how apps sign in."),
    tabs(
      "People",
      views.map(([key, [text]]) => [key, text, link("people", key === "users" ? [] : [key])]),
      known,
    ),
    content,
  );
  return VIEWS[known][1](content, at, query, signal);
}
