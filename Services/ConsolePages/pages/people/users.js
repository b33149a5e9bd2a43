// The users, found by a part of their name or address.

import { get, post } from "../../core/api.js";
import { h, replace } from "../../core/dom.js";
import { bytes, count } from "../../core/format.js";
import { go, link, note as noteQuery } from "../../core/router.js";
import * as state from "../../core/state.js";
import { badge, button, check, copyable, empty, field, input, table } from "../../parts/parts.js";
import { ask, showSecret } from "../../parts/dialogs.js";
import { paged, PAGE } from "../../parts/pager.js";

const PAUSE = 200;

export function showUsers(content, { container }, query, signal) {
  const list = h("div");
  const words = input({ type: "search", placeholder: "A part of a name or address", value: query.search ?? "" });
  let timer = 0;
  const load = async (after) => {
    const answer = await get(
      "users",
      {
        search: words.value.trim(),
        after,
        limit: PAGE,
        usage: true,
        container: state.isOperator() ? undefined : container,
      },
      { signal },
    );
    return { rows: answer.users ?? [], next: answer.after };
  };
  const fill = () => replace(list, paged(load, (rows) => userTable(rows, words.value), signal).view);
  words.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      noteQuery({ search: words.value.trim() });
      fill();
    }, PAUSE);
  });
  replace(
    content,
    h(
      "section",
      { class: "card bare" },
      h(
        "header",
        null,
        h("h2", null, "Users"),
        h("div", null, field("Search", words)),
        state.isOperator() && button("New user", newUser, { icon: "plus", kind: "first" }),
      ),
      list,
    ),
  );
  fill();
  return () => clearTimeout(timer);
}

function userTable(rows, words) {
  if (!rows.length)
    return words
      ? empty("No user of this name", "Try a shorter part of it.")
      : empty("No users yet", "Make the first one: apps sign in as users.");
  return table(
    "Users",
    [
      [
        "Name",
        (row) =>
          state.isOperator()
            ? h("a", { class: "nowrap", href: link("people", ["users", row.userRecordName]) }, row.name)
            : h("b", null, row.name),
      ],
      ["Person", (row) => [row.givenName, row.familyName].filter(Boolean).join(" ")],
      ["Address", (row) => row.email ?? row.phone ?? ""],
      ["State", (row) => (row.disabled ? badge("disabled", "bad") : badge("active", "good"))],
      ["Records", (row) => count(row.records), { right: true }],
      ["Size", (row) => bytes(row.bytes), { class: "right number nowrap", right: true }],
    ],
    rows,
  );
}

async function newUser() {
  const name = input({ required: true, autocomplete: "off" });
  const given = input({});
  const family = input({});
  const email = input({ type: "email" });
  const phone = input({ type: "tel" });
  const password = input({ type: "password", autocomplete: "new-password" });
  const discoverable = check("Other users find them by address", false);
  const text = (control) => control.value.trim() || undefined;
  const made = await ask(
    "New user",
    [
      field("Name", name, "Unique, for operators and the sign-in page."),
      h(
        "div",
        { class: "fields" },
        field("Given name", given),
        field("Family name", family),
        field("E-mail", email),
        field("Telephone", phone),
      ),
      field("Password", password, "Only for the sign-in page; tokens work without one."),
      discoverable.view,
    ],
    "Create",
    () =>
      post("users", {
        name: name.value,
        givenName: text(given),
        familyName: text(family),
        email: text(email),
        phone: text(phone),
        password: password.value || undefined,
        discoverable: discoverable.box.checked,
      }),
  );
  if (!made) return;
  await showSecret(
    "The user is there",
    "This token signs a device in as the user. It is shown this once.",
    copyable(made.webAuthToken, "the token"),
  );
  go("people", ["users", made.userRecordName]);
}
