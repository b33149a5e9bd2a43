// One user: what they hold, their quota, their credentials, and the end of their account.

import { call, CallError, get, post } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { bytes, count, plural } from "../../core/format.js";
import { go, link, show } from "../../core/router.js";
import {
  badge,
  button,
  card,
  check,
  choice,
  copyable,
  empty,
  facts,
  field,
  head,
  input,
  loading,
  place,
  table,
} from "../../parts/parts.js";
import { ask, confirm, note, noteError, showSecret } from "../../parts/dialogs.js";
import { sessionTable } from "./sessions.js";

export function showUser(outlet, name, signal) {
  const content = place();
  replace(outlet, content);
  loading(
    content,
    async () => {
      const user = await get(["users", name], undefined, { signal });
      const { sessions = [] } = await get("sessions", { user: user.userRecordName }, { signal });
      return { user, sessions };
    },
    ({ user, sessions }) => view(user, sessions),
    signal,
  );
}

function view(user, sessions) {
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
      h(
        "section",
        { class: "card bare" },
        h("header", null, h("h2", null, "Databases")),
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
                ["Environment", (row) => row.environment],
                ["Records", (row) => count(row.records), { right: true }],
                ["Zones", (row) => count(row.zones), { right: true }],
                ["Size", (row) => bytes(row.bytes), { right: true }],
              ],
              user.holds,
            )
          : empty("No data yet"),
      ),
      user.memberships?.length > 0 &&
        h(
          "section",
          { class: "card bare" },
          h("header", null, h("h2", null, "Zones of others")),
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
      h("section", { class: "card bare" }, h("header", null, h("h2", null, "Sessions")), sessionTable(sessions)),
    ),
  ];
}

const quotaText = (quota) =>
  quota === null || quota === undefined ? "the workers' own" : quota === 0 ? "no limit" : bytes(quota);

async function act(promise, words) {
  try {
    await promise;
    note(words);
    show();
  } catch (error) {
    noteError(error);
  }
}

async function newToken(user) {
  try {
    const { webAuthToken } = await post(["users", user.name, "tokens"]);
    await showSecret(
      "A new token",
      "It signs a device in as the user, until it is revoked. It is shown this once.",
      copyable(webAuthToken, "the token"),
    );
    show();
  } catch (error) {
    noteError(error);
  }
}

async function disable(user) {
  const done = await confirm(
    `Disable ${user.name}?`,
    "Their tokens are refused from now on, and their sessions end. Their data stay.",
    "Disable",
    () => post(["users", user.name, "disable"]),
  );
  if (done) act(Promise.resolve(), "The user is disabled.");
}

async function edit(user) {
  const controls = {
    givenName: input({ value: user.givenName ?? "" }),
    familyName: input({ value: user.familyName ?? "" }),
    email: input({ type: "email", value: user.email ?? "" }),
    phone: input({ type: "tel", value: user.phone ?? "" }),
  };
  const discoverable = check("Other users find them by address", user.discoverable);
  const labels = { givenName: "Given name", familyName: "Family name", email: "E-mail", phone: "Telephone" };
  const done = await ask(
    `Edit ${user.name}`,
    [
      h(
        "div",
        { class: "fields" },
        Object.entries(controls).map(([key, control]) => field(labels[key], control)),
      ),
      discoverable.view,
    ],
    "Save",
    () => {
      const changes = Object.fromEntries(
        Object.entries(controls)
          .map(([key, control]) => [key, control.value.trim()])
          .filter(([key, value]) => value !== (user[key] ?? "")),
      );
      if (discoverable.box.checked !== user.discoverable) changes.discoverable = discoverable.box.checked;
      return post(["users", user.name], changes);
    },
  );
  if (done) act(Promise.resolve(), "The user is saved.");
}

async function setPassword(user) {
  const password = input({ type: "password", required: true, autocomplete: "new-password" });
  const done = await ask(
    `Password of ${user.name}`,
    field("New password", password, "The user's sessions end; tokens stay valid."),
    "Set the password",
    () => post(["users", user.name, "password"], { password: password.value }),
  );
  if (done) act(Promise.resolve(), "The password is set.");
}

async function setQuota(user) {
  const kind = choice(
    [
      ["default", "the workers' own"],
      ["none", "no limit"],
      ["bytes", "a limit"],
    ],
    user.quota === null || user.quota === undefined ? "default" : user.quota === 0 ? "none" : "bytes",
  );
  const megabytes = input({ inputmode: "decimal", value: user.quota ? user.quota / 1e6 : "500" });
  const done = await ask(
    `Quota of ${user.name}`,
    [
      field("Quota", kind),
      field(
        "MB for each database",
        megabytes,
        "Counts with “a limit” only. Above it, saves that add bytes are refused.",
      ),
    ],
    "Save",
    () => {
      const value =
        kind.value === "default" ? null : kind.value === "none" ? 0 : Math.round(Number(megabytes.value) * 1e6);
      return call("PUT", ["users", user.name, "quota"], { json: { bytes: value } });
    },
  );
  if (done) act(Promise.resolve(), "The quota is saved.");
}

async function remove(user) {
  const name = input({ required: true });
  const done = await ask(
    `Delete ${user.name}?`,
    [
      h(
        "p",
        null,
        "Their sign-ins end at once; their databases with records, assets, devices and history go shard after " +
          "shard. Their shares end for everybody. Earlier backups still have the data.",
      ),
      field(`Type ${user.name} to go on`, name),
    ],
    "Delete the user",
    () => {
      if (name.value !== user.name) throw new CallError(400, "BAD_REQUEST", "The name is another one");
      return call("DELETE", ["users", user.name]);
    },
    { danger: true },
  );
  if (!done) return;
  note("The user is being removed.");
  go("people");
}
