// The frame of the console: navigation, the place that pages are about, the banner of a lost connection.

import { observe } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import * as live from "../core/live.js";
import * as router from "../core/router.js";
import * as state from "../core/state.js";
import * as theme from "../core/theme.js";
import { icon, mark } from "../parts/icons.js";
import { choice, pictureButton } from "../parts/parts.js";
import { noteError, noteRegion } from "../parts/dialogs.js";
import { registerPages } from "../pages/pages.js";
import { openPalette } from "./palette.js";

const PLACES = [
  ["home", "Home"],
  ["data", "Data"],
  ["sync", "Sync"],
  ["schema", "Schema"],
  ["people", "People"],
  ["operations", "Operations", true],
];

/** The name of who signs in with the operator token. */
const TOKEN_HOLDER = "_operator";

/** Pages that begin anew when the container or the environment changes. */
const SCOPED = new Set(["data", "sync", "schema", "people"]);

export const visiblePlaces = () => PLACES.filter(([, , operatorOnly]) => !operatorOnly || state.isOperator());

/** Shows the frame in `root`. The function that it returns ends what it began. */
export function frame(root, { leave, ended }) {
  const outlet = h("main", { class: "page", id: "content", tabindex: -1 });
  const links = visiblePlaces().map(([name, text]) =>
    h("a", { href: router.link(name), "data-page": name }, icon(name), h("span", null, text)),
  );
  const banner = h("div", { class: "banner", role: "alert", hidden: true });
  const dot = pulse();
  const scope = scopeView();
  const off = [watchConnection(banner, ended), keys(), dot.stop, scope.stop];
  replace(
    root,
    h("a", { class: "skip", href: "#", on: { click: skip(outlet) } }, "Skip to the content"),
    h(
      "div",
      { class: "frame" },
      h(
        "aside",
        { class: "side" },
        h(
          "a",
          { class: "brand", href: router.link("home"), "aria-label": "Aquifer, home" },
          mark(),
          h("span", null, "Aquifer"),
        ),
        h("nav", { "aria-label": "Pages" }, links),
        h("div", { class: "rest" }),
        whoView(leave),
      ),
      h("div", { class: "main" }, banner, topBar(leave, scope.view, dot.view), outlet),
    ),
    noteRegion(),
  );
  registerPages();
  const unscope = state.whenScopeChanges(() => {
    const { name } = router.parse();
    if (!SCOPED.has(name)) return;
    if (window.location.hash === router.link(name)) router.show();
    else router.go(name);
  });
  router.start(outlet, (name, page) => {
    for (const view of links) view.toggleAttribute("aria-current", view.dataset.page === name);
    for (const view of links) if (view.dataset.page === name) view.setAttribute("aria-current", "page");
    document.title = `${page.title} · Aquifer`;
  });
  off.push(unscope);
  return () => {
    for (const end of off) end();
  };
}

const skip = (outlet) => (event) => {
  event.preventDefault();
  outlet.focus();
};

function whoView(leave) {
  const { name: given, role } = state.who();
  const name = given === TOKEN_HOLDER ? "operator token" : given;
  return h(
    "div",
    { class: "who" },
    h("div", null, h("b", { title: name }, name || role), h("span", { class: "small soft" }, role)),
    pictureButton("leave", "Sign out", () => leave().catch(noteError)),
  );
}

function topBar(leave, scope, dot) {
  const jump = h(
    "button",
    {
      type: "button",
      class: "jump",
      "aria-label": "Jump to a page, user, zone or record",
      "aria-keyshortcuts": "Control+K",
      on: { click: openPalette },
    },
    icon("search"),
    h("span", null, "Jump to…"),
    h("kbd", null, "Ctrl K"),
  );
  const picture = () => (theme.isDark() ? "sun" : "moon");
  const look = pictureButton(picture(), "Switch between light and dark", () => {
    theme.toggle();
    replace(look, icon(picture()));
  });
  const out = pictureButton("leave", "Sign out", () => leave().catch(noteError), {
    class: "button square quiet only-small",
  });
  return h("header", { class: "top" }, jump, h("div", { class: "rest" }), scope, dot, look, out);
}

function scopeView() {
  const view = h("div", { class: "scope row" });
  const draw = () => {
    const { container, environment } = state.scope();
    const names = state.allContainers().map((entry) => [entry.container, entry.displayName || entry.container]);
    if (!names.length) return replace(view);
    return replace(
      view,
      choice(names, container, (value) => state.setScope(value, state.scope().environment), {
        "aria-label": "Container",
      }),
      choice(["development", "production"], environment, (value) => state.setScope(state.scope().container, value), {
        "aria-label": "Environment",
      }),
    );
  };
  draw();
  return { view, stop: state.whenScopeChanges(draw) };
}

/** Says whether what is shown is of this second. */
function pulse() {
  const text = h("span", null, "connecting");
  const view = h("div", { class: "pulse", "data-state": "waiting", role: "status" }, h("i"), text);
  const set = (name, words) => {
    if (view.dataset.state === name) return;
    view.dataset.state = name;
    replace(text, words);
  };
  if (!state.isOperator()) {
    view.hidden = true;
    return { view, stop: () => {} };
  }
  return { view, stop: live.follow((sample) => (sample ? set("live", "live") : set("waiting", "reconnecting"))) };
}

/** Shows the banner while the server does not answer. Asks every two seconds, and shows the page anew at the answer. */
function watchConnection(banner, ended) {
  let timer = 0;
  const look = async () => {
    const answer = await fetch("./session", { credentials: "same-origin" }).catch(() => null);
    if (!answer || answer.status >= 500) return;
    clearInterval(timer);
    timer = 0;
    banner.hidden = true;
    if (answer.status === 401) ended();
    else router.show();
  };
  const lose = () => {
    if (timer) return;
    replace(
      banner,
      "The connection is lost. The console goes on by itself when the server answers; nothing is half done.",
    );
    banner.hidden = false;
    timer = setInterval(look, 2000);
  };
  const off = observe((answered) => {
    if (answered === null) ended();
    else if (!answered) lose();
  });
  return () => {
    off();
    clearInterval(timer);
  };
}

function keys() {
  const press = (event) => {
    if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      openPalette();
    }
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}
