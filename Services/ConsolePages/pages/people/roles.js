// Who may do what: operators, developers of a container, and roles that schemas declare.

import { call, get, post } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { date } from "../../core/format.js";
import * as state from "../../core/state.js";
import { badge, button, choice, empty, field, input, loading, place, table } from "../../parts/parts.js";
import { ask, confirm, note } from "../../parts/dialogs.js";

export function showRoles(content, at, _query, signal) {
  const list = place();
  const query = { container: state.isOperator() ? undefined : at.container };
  const fill = () =>
    loading(
      list,
      () => get("roles", query, { signal }),
      ({ roles = [] }) =>
        roles.length
          ? roleTable(roles, fill)
          : empty("No roles yet", "Operators sign in here by name once they have the role."),
      signal,
    );
  replace(
    content,
    h(
      "section",
      { class: "card bare" },
      h(
        "header",
        null,
        h("h2", null, "Roles"),
        button("Give a role", () => grant(at, fill), { icon: "plus" }),
      ),
      list,
    ),
  );
  fill();
}

export const roleTable = (roles, done) =>
  table(
    "Roles",
    [
      ["User", (row) => h("b", null, row.user)],
      ["Role", (row) => badge(row.role, row.role === "operator" ? "accent" : "")],
      ["Container", (row) => row.container ?? "the whole installation"],
      ["Environment", (row) => row.environment ?? "", { class: "nowrap" }],
      ["Since", (row) => date(row.granted), { class: "nowrap" }],
      [
        "",
        (row) =>
          button("Take back", () => revoke(row, done), { kind: "quiet", name: `Take ${row.role} from ${row.user}` }),
      ],
    ],
    roles,
  );

/** Asks for a role; `name` is the user's, if it is known already. */
export async function grant({ container, environment, name = "" }, done) {
  const user = input({ required: true, value: name });
  const own = input({ placeholder: "As CREATE ROLE names it" });
  const kinds = [["schema", "a role of the schema"]];
  if (state.isOperator()) kinds.unshift(["operator", "operator"], ["developer", "developer of the container"]);
  const ownField = field("Role of the schema", own);
  const kind = choice(kinds, kinds[0][0], () => ownField.toggleAttribute("hidden", kind.value !== "schema"));
  ownField.hidden = kind.value !== "schema";
  const wasGiven = await ask(
    "Give a role",
    [
      field("User", user),
      field("Role", kind),
      ownField,
      h("p", { class: "hint" }, `The container is ${container || "none yet"}.`),
    ],
    "Give",
    () => {
      const given = { user: user.value.trim() };
      if (kind.value === "operator") return post("roles", { ...given, role: "operator" });
      if (kind.value === "developer") return post("roles", { ...given, role: "developer", container });
      return post("roles", { ...given, role: own.value.trim(), container, environment });
    },
  );
  if (!wasGiven) return;
  note("The role is given.");
  done();
}

async function revoke({ user, role, container, environment }, done) {
  const place = container ? [container, environment].filter(Boolean) : [];
  const taken = await confirm(`Take ${role} from ${user}?`, "Their open pages lose it at once.", "Take it back", () =>
    call("DELETE", ["roles", ...place, role, user]),
  );
  if (!taken) return;
  note("The role is taken back.");
  done();
}
