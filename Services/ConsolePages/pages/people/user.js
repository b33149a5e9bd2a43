// One user: what they hold, their quota, their credentials, and the end of their account.

import { get, post } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { bytes, count, plural } from "../../core/format.js";
import { link, show } from "../../core/router.js";
import * as state from "../../core/state.js";
import { badge, button, card, empty, facts, head, loading, place, table } from "../../parts/parts.js";
import { pagedArray } from "../../parts/pager.js";
import { silentHint } from "../data/data.js";
import { storeTable } from "../sync/stores.js";
import { registrationTable } from "./registrations.js";
import { grant, roleTable } from "./roles.js";
import { sessionTable } from "./sessions.js";
import { act, disable, edit, newToken, remove, setPassword, setQuota, signOut } from "./user-changes.js";

export function showUser(outlet, name, signal) {
  const content = place();
  replace(outlet, content);
  loading(
    content,
    async () => {
      const user = await get(["users", name], undefined, { signal });
      const owner = user.userRecordName;
      const [{ sessions = [] }, { roles = [] }, { registrations = [] }, { stores = [], silent }] = await Promise.all([
        get("sessions", { user: owner }, { signal }),
        get("roles", undefined, { signal }),
        get("registrations", { user: owner }, { signal }),
        get("stores", { owner }, { signal }),
      ]);
      const ownRoles = roles.filter((role) => role.userRecordName === owner);
      return { user, sessions, roles: ownRoles, registrations, stores, silent };
    },
    (found) => view(found, signal),
    signal,
  );
}

function view({ user, sessions, roles, registrations, stores, silent }, signal) {
  const person = [user.givenName, user.familyName].filter(Boolean).join(" ");
  const toggle = user.disabled
    ? button("Enable", () => act(post(["users", user.name, "enable"]), "The user's tokens are accepted again."))
    : button("Disable", () => disable(user), { kind: "danger" });
  return [
    head(user.name, person || user.userRecordName, {
      trail: [["Users", link("people")]],
      actions: [
        button("New token", () => newToken(user)),
        button("Edit", () => edit(user)),
        button("Password", () => setPassword(user)),
        toggle,
        button("Delete", () => remove(user), { kind: "danger" }),
      ],
    }),
    h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "halves" },
        card(
          "Account",
          facts([
            ["State", user.disabled ? badge("disabled", "bad") : badge("active", "good")],
            ["Record name", h("code", null, user.userRecordName)],
            ["E-mail", user.email],
            ["Telephone", user.phone],
            ["Found by others", user.discoverable ? "yes" : "no"],
            ["Password", user.password ? "set" : "none"],
            ["Tokens", count(user.tokens ?? 0)],
            ["Sessions", count(user.sessions ?? 0)],
            ["Devices that are woken", count(user.registrations ?? 0)],
            ["Server keys", count(user.keys ?? 0)],
          ]),
        ),
        card(
          "What they hold",
          h(
            "div",
            { class: "stack" },
            facts([
              ["In all", `${plural(user.records ?? 0, "record")}, ${bytes(user.bytes ?? 0)}`],
              ["Quota of each database", quotaText(user.quota)],
              ["Shares", count(user.shares ?? 0)],
              ["Shared with them", count(user.sharedWith ?? 0)],
            ]),
            h(
              "div",
              null,
              button("Change the quota", () => setQuota(user)),
            ),
          ),
        ),
      ),
      section(
        "Databases",
        user.holds?.length
          ? table(
              "Databases",
              [
                [
                  "Container",
                  (row) =>
                    h(
                      "a",
                      { href: link("data", [row.container, row.environment, user.userRecordName]) },
                      row.container,
                    ),
                ],
                ["Environment", (row) => row.environment, { class: "nowrap" }],
                ["Records", (row) => count(row.records), { right: true }],
                ["Zones", (row) => count(row.zones), { right: true }],
                ["Size", (row) => bytes(row.bytes), { right: true }],
              ],
              user.holds,
            )
          : empty("No data yet"),
      ),
      user.memberships?.length > 0 &&
        section(
          "Zones of others",
          table(
            "Zones of others",
            [
              ["Zone", (row) => row.zone],
              ["Owner", (row) => h("code", null, row.owner)],
              ["Container", (row) => row.container],
            ],
            user.memberships,
          ),
        ),
      section("Devices", [silentHint(silent), pagedArray(() => stores, storeTable, signal).view]),
      section("Woken devices", pagedArray(() => registrations, registrationTable, signal).view),
      section(
        "Sessions",
        sessionTable(sessions),
        button("Sign out everywhere", () => signOut(user)),
      ),
      section(
        "Roles",
        roles.length ? roleTable(roles, show) : empty("No roles", "They sign in to apps, and not to this console."),
        button("Give a role", () => grant({ ...state.scope(), name: user.name }, show), { icon: "plus" }),
      ),
    ),
  ];
}

const section = (title, content, action) =>
  h("section", { class: "card bare" }, h("header", null, h("h2", null, title), action), content);

const quotaText = (quota) =>
  quota === null || quota === undefined ? "the workers' own" : quota === 0 ? "no limit" : bytes(quota);
