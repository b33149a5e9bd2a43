// The calls to the server: one function sends them, and one kind of error tells what failed and what to do.

const ROOT = "./";
let token = "";
const listeners = new Set();

/** A refusal of the server, or a lost connection (`status` 0). */
export class CallError extends Error {
  constructor(status, code, reason, fields = {}) {
    super(reason);
    this.status = status;
    this.code = code;
    this.fields = fields;
  }

  /** Whether the same call may succeed later without a change. */
  get isPassing() {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }

  /** A sentence about what the reader can do. */
  get remedy() {
    if (this.status === 0) return "Nothing was lost here. The console goes on when the server answers again.";
    if (this.status === 401) return "Sign in again.";
    if (this.status === 403) return "Ask an operator for the role that this needs.";
    if (this.status === 404) return "It may have been deleted meanwhile. Reload the page.";
    if (this.status === 409) return "Nothing was changed. Look at what is there now, and try again.";
    if (this.isPassing) return `Try again in ${this.fields.retryAfter ?? "a few"} seconds.`;
    if (this.status >= 500) return `The server's log tells more about the request ${this.fields.uuid ?? ""}.`;
    return "Nothing was changed. Correct it, and try again.";
  }
}

/** A refusal after which a part of the change is done; `done` says which part, and what helps. */
export class PartlyDone extends CallError {
  constructor(error, done) {
    super(error.status, error.code, error.message, error.fields);
    this.done = done;
  }

  get remedy() {
    return this.done;
  }
}

/** Calls `listener` with `true` when a call was answered, `false` when the connection failed, `null` at a 401. */
export function observe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(state) {
  for (const listener of listeners) listener(state);
}

export function setToken(csrf) {
  token = csrf ?? "";
}

/**
 * The path of segments, each percent-encoded, with a query of the values that are given. Throws for a name that a
 * browser takes for a step in the address, however it is spelled: the call would be another one.
 */
export function path(segments, query = {}) {
  const step = segments.find((segment) => segment === "." || segment === "..");
  if (step) throw new CallError(400, "BAD_REQUEST", `A browser can't send the name “${step}”`);
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = segments.map(encodeURIComponent).join("/");
  return pairs.length ? `${text}?${new URLSearchParams(pairs)}` : text;
}

async function send(method, target, { body, type, signal, accept } = {}) {
  const headers = {};
  if (accept) headers.Accept = accept;
  if (method !== "GET") headers["X-CSRF-Token"] = token;
  if (body !== undefined) headers["Content-Type"] = type ?? "application/json";
  let answer;
  try {
    answer = await fetch(ROOT + target, { method, headers, body, signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    tell(false);
    throw new CallError(0, "OFFLINE", "The server does not answer");
  }
  tell(true);
  if (answer.ok) return answer;
  throw await refusal(answer, target);
}

async function refusal(answer, target) {
  const fields = await answer.json().catch(() => ({}));
  const reason = fields.reason ?? fields.problems?.[0]?.message ?? `The server answered ${answer.status}`;
  if (answer.status === 401 && target !== "session") tell(null);
  return new CallError(answer.status, fields.serverErrorCode ?? "", reason, fields);
}

/** Sends a call to the operator API. Objects become JSON; the answer is JSON unless `as` is `"text"` or `"blob"`. */
export async function call(method, target, { json, text, query, signal, as = "json" } = {}) {
  const segments = Array.isArray(target) ? target : target.split("/");
  const body = json === undefined ? text : JSON.stringify(json);
  const type = json === undefined ? "text/plain; charset=utf-8" : "application/json";
  const answer = await send(method, path(["api", ...segments], query), { body, type, signal });
  return as === "json" ? answer.json().catch(() => ({})) : answer[as]();
}

export const get = (target, query, options) => call("GET", target, { query, ...options });
export const post = (target, json = {}, options) => call("POST", target, { json, ...options });

export const session = {
  current: async () => (await send("GET", "session")).json(),
  begin: async (credentials) => (await send("POST", "session", { body: JSON.stringify(credentials) })).json(),
  end: async () => send("DELETE", "session"),
};
