// Who is signed in, and the container and environment that the pages are about.

import { get } from "./api.js";

const PLACE = "aquifer-place";
const listeners = new Set();
let person = null;
let containers = [];
let place = { container: "", environment: "development" };

export const who = () => person;
export const isOperator = () => person?.role === "operator";
export const allContainers = () => containers;
export const scope = () => place;

export function enter(session) {
  person = session;
}

export function leave() {
  person = null;
  containers = [];
}

/** Reads the containers, and keeps the one that was looked at last if it is still there. */
export async function readContainers() {
  containers = (await get("containers")).containers ?? [];
  const kept = remembered();
  const names = containers.map((entry) => entry.container);
  const found = names.includes(place.container) ? place : names.includes(kept.container) ? kept : null;
  place = found ?? { container: names[0] ?? "", environment: place.environment };
  for (const listener of listeners) listener(place);
}

function remembered() {
  try {
    const kept = JSON.parse(localStorage.getItem(PLACE)) ?? {};
    const environment = kept.environment === "production" ? "production" : "development";
    return { container: String(kept.container ?? ""), environment };
  } catch {
    return place;
  }
}

export function setScope(container, environment) {
  if (container === place.container && environment === place.environment) return;
  place = { container, environment };
  localStorage.setItem(PLACE, JSON.stringify(place));
  for (const listener of listeners) listener(place);
}

export function whenScopeChanges(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
