// API tokens with their origins, and the keys of servers.

import { call, CallError, get, post } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { date } from "../../core/format.js";
import { go } from "../../core/router.js";
import * as state from "../../core/state.js";
import { button, choice, copyable, empty, field, input, loading, place, table } from "../../parts/parts.js";
import { ask, confirm, note, showSecret } from "../../parts/dialogs.js";

export function showTokens(content, at, _query, signal) {
  const [tokens, keys, containers] = [place(), place(), place()];
  const { container } = at;
  const fillTokens = () =>
    loading(
      tokens,
      () => get("tokens", { container }, { signal }),
      (answer) => tokenTable(answer.tokens ?? [], fillTokens),
      signal,
    );
  const fillKeys = () =>
    loading(
      keys,
      () => get("keys", { container }, { signal }),
      (answer) => keyTable(answer.keys ?? [], fillKeys),
      signal,
    );
  replace(
    content,
    h(
      "div",
      { class: "stack" },
      state.isOperator() && section("Containers", button("New container", newContainer, { icon: "plus" }), containers),
      container &&
        section(
          "API tokens",
          button("New token", () => newToken(at, fillTokens), { icon: "plus" }),
          tokens,
        ),
      container &&
        section(
          "Server keys",
          button("Add a key", () => newKey(at, fillKeys), { icon: "plus" }),
          keys,
        ),
    ),
  );
  if (state.isOperator()) replace(containers, containerTable(state.allContainers()));
  if (!container) return;
  fillTokens();
  fillKeys();
}

const section = (title, action, content) =>
  h("section", { class: "card bare" }, h("header", null, h("h2", null, title), action), content);

function containerTable(rows) {
  if (!rows.length) return empty("No container yet", "A container holds the data of one app.");
  return table(
    "Containers",
    [
      ["Container", (row) => h("b", null, row.container)],
      ["Name", (row) => row.displayName ?? ""],
      ["App", (row) => row.appURL ?? ""],
      ["Made", (row) => date(row.created), { class: "nowrap" }],
    ],
    rows,
  );
}

async function newContainer() {
  const name = input({ required: true, placeholder: "iCloud.org.example.photos" });
  const made = await ask(
    "New container",
    field("Identifier", name, "Letters, digits, dots, dashes and underscores."),
    "Create",
    () => post("containers", { container: name.value.trim() }),
  );
  if (!made) return;
  await state.readContainers();
  note("The container is there.");
  state.setScope(name.value.trim(), state.scope().environment);
  go("people", ["tokens"]);
}

function tokenTable(rows, done) {
  if (!rows.length) return empty("No API tokens", "A web app needs one. It can be bound to the origins of its pages.");
  return table(
    "API tokens",
    [
      ["Token", (row) => h("code", null, row.apiToken), { class: "nowrap" }],
      ["Environment", (row) => row.environment, { class: "nowrap" }],
      ["Origins", (row) => (row.allowedOrigins?.length ? row.allowedOrigins.join(", ") : "any")],
      ["Callback", (row) => row.callbackURL ?? ""],
      ["Made", (row) => date(row.created), { class: "nowrap" }],
      [
        "",
        (row) =>
          button("Revoke", () => revoke("tokens", row.apiToken.replace("…", ""), done), {
            kind: "quiet",
            name: `Revoke ${row.apiToken}`,
          }),
      ],
    ],
    rows,
  );
}

function keyTable(rows, done) {
  if (!rows.length) return empty("No server keys", "A server signs its requests with a key of its own.");
  return table(
    "Server keys",
    [
      ["Key", (row) => h("code", { class: "cut", title: row.keyID }, row.keyID)],
      ["Name", (row) => row.name ?? ""],
      ["Acts as", (row) => row.user ?? ""],
      ["Made", (row) => date(row.created), { class: "nowrap" }],
      [
        "",
        (row) =>
          button("Revoke", () => revoke("keys", row.keyID, done), {
            kind: "quiet",
            name: `Revoke ${row.name ?? row.keyID}`,
          }),
      ],
    ],
    rows,
  );
}

async function revoke(noun, name, done) {
  const revoked = await confirm(
    "Revoke it?",
    "Requests with it are refused from now on. This can't be taken back.",
    "Revoke",
    () => call("DELETE", [noun, name]),
  );
  if (!revoked) return;
  note("It is revoked.");
  done();
}

async function newToken({ container, environment }, done) {
  const where = choice(["development", "production"], environment);
  const origins = h("textarea", { rows: 3, placeholder: "https://app.example.org" });
  const callback = input({ type: "url" });
  const made = await ask(
    "New API token",
    [
      field("Environment", where),
      field("Origins", origins, "One a line. Without any, every page may use the token."),
      field("Callback address", callback),
    ],
    "Create",
    () =>
      post("tokens", {
        container,
        environment: where.value,
        allowedOrigins: origins.value.split(/\s+/).filter(Boolean),
        callbackURL: callback.value.trim() || undefined,
      }),
  );
  if (!made) return;
  await showSecret("The API token", "It is shown this once.", copyable(made.apiToken, "the token"));
  done();
}

async function newKey({ container }, done) {
  const key = h("textarea", { rows: 5, required: true, placeholder: "-----BEGIN PUBLIC KEY-----" });
  const [name, user] = [input({}), input({})];
  const made = await ask(
    "Add a server key",
    [
      field("Public key", key, "ECDSA P-256 as PEM. The private half stays on the server that signs."),
      h("div", { class: "fields" }, field("Name", name), field("Acts as the user", user)),
    ],
    "Add",
    () => {
      if (key.value.includes("PRIVATE KEY-----"))
        throw new CallError(400, "BAD_REQUEST", "This is the private half, which stays on the server that signs");
      return post("keys", {
        container,
        publicKey: key.value,
        name: name.value.trim() || undefined,
        user: user.value.trim() || undefined,
      });
    },
  );
  if (!made) return;
  await showSecret("The key's ID", "The server sends it with each request.", copyable(made.keyID, "the ID"));
  done();
}
