// Starts the console: the session first, then the frame with its pages.

import { session, setToken } from "./core/api.js";
import { replace } from "./core/dom.js";
import * as live from "./core/live.js";
import * as router from "./core/router.js";
import * as state from "./core/state.js";
import * as theme from "./core/theme.js";
import { trouble } from "./parts/parts.js";
import { frame } from "./shell/frame.js";
import { signIn } from "./shell/sign-in.js";

const root = document.getElementById("app");
let end = () => {};

async function open(found) {
  setToken(found.csrf);
  state.enter(found);
  await state.readContainers();
  end = frame(root, { leave, ended: () => close("The session has ended. Sign in again to go on where you were.") });
}

function close(sentence) {
  end();
  router.stop();
  live.stop();
  state.leave();
  setToken("");
  signIn(root, open, sentence);
}

async function leave() {
  await session.end();
  window.location.hash = "";
  close("You have signed out.");
}

async function begin() {
  try {
    await open(await session.current());
  } catch (error) {
    if (error.status === 401) signIn(root, open);
    else replace(root, trouble(error, begin));
  }
}

theme.start();
begin();
