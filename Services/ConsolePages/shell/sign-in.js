// The door: an operator's token, or a name and a password.

import { session } from "../core/api.js";
import { h, replace, s } from "../core/dom.js";
import { button, field, input, trouble } from "../parts/parts.js";
import { mark } from "../parts/icons.js";

/** Shows the form, and calls `open(session)` when the server has let the person in. */
export function signIn(root, open, sentence) {
  const name = input({ name: "username", autocomplete: "username", required: true });
  const password = input({ type: "password", name: "password", autocomplete: "current-password", required: true });
  const token = input({ type: "password", name: "token", autocomplete: "off", required: true });
  const failed = h("div");
  const said = h("p", { class: "soft", role: "status" }, sentence ?? "Sign in to see and run this installation.");
  const submit = button("Sign in", null, { kind: "first", type: "submit" });
  const fields = h("div", { class: "stack" });
  const other = button("", () => choose(!usesToken), { kind: "quiet" });
  let usesToken = true;

  function choose(wantsToken) {
    usesToken = wantsToken;
    replace(
      fields,
      wantsToken
        ? field("Operator token", token, "The server prints it when it starts.")
        : [field("Name", name), field("Password", password)],
    );
    replace(other, wantsToken ? "Use a name and a password" : "Use the operator token");
    (wantsToken ? token : name).focus();
  }

  async function send(event) {
    event.preventDefault();
    submit.disabled = true;
    replace(failed);
    try {
      const given = usesToken ? { operatorToken: token.value.trim() } : { name: name.value, password: password.value };
      await open(await session.begin(given));
    } catch (error) {
      replace(failed, refused(error, usesToken));
      submit.disabled = false;
      (usesToken ? token : password).select();
    }
  }

  const form = h("form", { on: { submit: send } }, fields, failed, h("div", { class: "row" }, submit, other));
  replace(
    root,
    h(
      "div",
      { class: "welcome" },
      strata(),
      h(
        "main",
        { class: "door" },
        h("div", { class: "brand" }, mark(), h("span", null, "Aquifer")),
        h("div", { class: "stack" }, h("h1", null, "Console"), said),
        form,
      ),
    ),
  );
  choose(true);
}

function refused(error, usesToken) {
  if (error.status === 401) {
    return h(
      "div",
      { class: "trouble", role: "alert" },
      h("b", null, usesToken ? "This is not the operator token." : "The name or the password is wrong."),
      h("span", null, "Nothing was changed. Check it, and try again."),
    );
  }
  return trouble(error);
}

/** Layers of ground, with the water below. */
function strata() {
  const layer = (y, dip) =>
    s("path", { d: `M-60 ${y}C120 ${y - dip} 240 ${y + dip} 420 ${y}S700 ${y - dip} 960 ${y}V900H-60Z` });
  return h(
    "div",
    { class: "strata", "aria-hidden": "true" },
    s(
      "svg",
      { viewBox: "0 0 800 800", preserveAspectRatio: "xMidYMax slice" },
      layer(250, 40),
      layer(330, -34),
      layer(410, 30),
      layer(490, -40),
      layer(560, 34),
      layer(630, -26),
      layer(700, 22),
    ),
    h("p", null, "What every device saved, safe below the surface."),
  );
}
