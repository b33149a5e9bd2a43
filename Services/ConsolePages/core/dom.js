// Builds elements. Each text becomes a text node, so that stored data can never become markup.

const SVG = "http://www.w3.org/2000/svg";
const ADDRESSES = new Set(["href", "src", "action", "formaction"]);
const PROPERTIES = new Set(["value", "checked", "selected", "disabled", "indeterminate"]);

/** Makes an HTML element. `attributes` may have `on` (event listeners), `vars` (CSS variables) and attributes. */
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Makes an SVG element. */
export function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) set(element, key, value);
  append(element, children);
  return element;
}

function set(element, key, value) {
  if (value === undefined || value === null || value === false) {
    if (PROPERTIES.has(key)) element[key] = key === "value" ? "" : false;
  } else if (key === "on") {
    for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
  } else if (key === "vars") {
    for (const [name, text] of Object.entries(value)) element.style.setProperty(name, text);
  } else if (PROPERTIES.has(key)) {
    element[key] = value;
  } else if (key.startsWith("on") || key === "style" || key === "srcdoc") {
    throw new TypeError(`dom: '${key}' would run or style what a page was told`);
  } else if (ADDRESSES.has(key) && !isSafe(String(value))) {
    element.setAttribute(`data-refused-${key}`, "");
  } else {
    element.setAttribute(key, value === true ? "" : String(value));
  }
}

/** Addresses stay on this origin: a fragment, a relative path, or a blob that this page made. */
function isSafe(address) {
  return /^(#|\.\/|\/(?!\/)|blob:)/.test(address);
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(plain(String(child))));
  }
}

/** Marks the characters that change the direction of text: a name with one makes the words behind it read otherwise. */
const plain = (text) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

/** Replaces what an element contains. */
export function replace(element, ...children) {
  const fragment = document.createDocumentFragment();
  append(fragment, children);
  element.replaceChildren(fragment);
  return element;
}

let count = 0;

/** A name that no other element of the page has. */
export function freshID(prefix) {
  count += 1;
  return `${prefix}-${count}`;
}
