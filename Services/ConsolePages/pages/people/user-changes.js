// What an operator does with a user: other names, a password, a quota, a token, the end of the account.

import { call, CallError, post } from "../../core/api.js";
import { h } from "../../core/dom.js";
import { go, show } from "../../core/router.js";
import { check, choice, copyable, field, input } from "../../parts/parts.js";
import { ask, confirm, note, noteError, showSecret } from "../../parts/dialogs.js";

/** Shows the page anew after a change, or says why it failed. */
export async function act(promise, words) {
  try {
    await promise;
    note(words);
    show();
  } catch (error) {
    noteError(error);
  }
}

export async function newToken(user) {
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

export async function disable(user) {
  const done = await confirm(
    `Disable ${user.name}?`,
    "Their tokens are refused from now on, and their sessions end. Their data stay.",
    "Disable",
    () => post(["users", user.name, "disable"]),
  );
  if (done) act(Promise.resolve(), "The user is disabled.");
}

/** Also ends what this page does not list: sessions in the console, and visits to pages of shares. */
export async function signOut(user) {
  const done = await confirm(
    `Sign ${user.name} out everywhere?`,
    "All their sessions end, also those in this console. Tokens that an operator made stay valid.",
    "Sign out",
    () => post(["users", user.name, "sign-out"]),
  );
  if (done) act(Promise.resolve(), "The user is signed out.");
}

export async function edit(user) {
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

export async function setPassword(user) {
  const password = input({ type: "password", required: true, autocomplete: "new-password" });
  const done = await ask(
    `Password of ${user.name}`,
    field("New password", password, "The user's sessions end; tokens stay valid."),
    "Set the password",
    () => post(["users", user.name, "password"], { password: password.value }),
  );
  if (done) act(Promise.resolve(), "The password is set.");
}

export async function setQuota(user) {
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
      const value = kind.value === "default" ? null : kind.value === "none" ? 0 : byteCount(megabytes.value);
      return call("PUT", ["users", user.name, "quota"], { json: { bytes: value } });
    },
  );
  if (done) act(Promise.resolve(), "The quota is saved.");
}

/** The bytes of a number of megabytes. Zero bytes would be no limit. */
function byteCount(text) {
  const bytes = text.trim() ? Math.round(Number(text) * 1e6) : NaN;
  if (!Number.isSafeInteger(bytes) || bytes < 1)
    throw new CallError(400, "BAD_REQUEST", `“${text}” is no number of megabytes above 0`);
  return bytes;
}

export async function remove(user) {
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
