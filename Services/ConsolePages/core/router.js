// The address behind `#` names the page, its place and its options, so that links lead to each view.

const pages = new Map();
let current = null;
let outlet = null;
let changed = () => {};

/** `page.show(outlet, place, query)` fills the outlet, and may return a function that is called when it is left. */
export function register(name, page) {
  pages.set(name, page);
}

/** The address of a page: `link("data", [container, environment], {type})`. */
export function link(name, place = [], query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const path = [name, ...place].map((part) => encodeURIComponent(part)).join("/");
  return `#/${path}${pairs.length ? `?${new URLSearchParams(pairs)}` : ""}`;
}

export function go(name, place, query) {
  window.location.hash = link(name, place, query);
}

/** Replaces the query of the present address without a new entry in the history. */
export function note(query) {
  const { name, place } = parse();
  window.history.replaceState(null, "", link(name, place, query));
}

export function parse(hash = window.location.hash) {
  const [path, search] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { name: parts[0] ?? "home", place: parts.slice(1), query: Object.fromEntries(new URLSearchParams(search)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function start(element, whenChanged) {
  outlet = element;
  changed = whenChanged;
  window.addEventListener("hashchange", show);
  show();
}

export function stop() {
  window.removeEventListener("hashchange", show);
  leave();
}

function leave() {
  if (current) current();
  current = null;
}

/** Shows the page of the address, again if it is shown already. */
export function show() {
  leave();
  const { name, place, query } = parse();
  const page = pages.get(name) ?? pages.get("home");
  outlet.replaceChildren();
  outlet.scrollTop = 0;
  window.scrollTo(0, 0);
  const gone = new AbortController();
  const end = page.show(outlet, place, query, gone.signal);
  current = () => {
    gone.abort();
    if (typeof end === "function") end();
  };
  changed(pages.has(name) ? name : "home", page);
}
