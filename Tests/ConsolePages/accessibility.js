// Looks for what keeps people out: controls without a name, weak contrast, a lost focus, headings that skip.

async function problemsOfPage() {
  const changing = () => document.getAnimations().filter((each) => each instanceof CSSTransition);
  while (changing().length) await Promise.allSettled(changing().map((each) => each.finished));
  const problems = [];
  const seen = (each) => each.checkVisibility({ visibilityProperty: true }) && each.getClientRects().length > 0;
  const nameOf = (each) =>
    (
      each.getAttribute("aria-label") ||
      [...(each.labels ?? [])].map((label) => label.innerText).join(" ") ||
      (each.getAttribute("aria-labelledby") ?? "")
        .split(" ")
        .map((id) => document.getElementById(id)?.textContent ?? "")
        .join(" ") ||
      each.innerText ||
      each.getAttribute("title") ||
      each.getAttribute("alt") ||
      ""
    ).trim();
  const told = (each) => `${each.tagName.toLowerCase()} ${(each.outerHTML ?? "").slice(0, 110)}`;

  for (const each of document.querySelectorAll(
    "button, a[href], input, select, textarea, [role=button], img, [role=img], dialog[open]",
  )) {
    if (seen(each) && !nameOf(each)) problems.push(`no name: ${told(each)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  for (const id of new Set(ids.filter((id, index) => ids.indexOf(id) !== index)))
    problems.push(`two elements are #${id}`);
  if (document.querySelectorAll("main").length !== 1) problems.push("not one main");
  if (![...document.querySelectorAll("h1")].some(seen)) problems.push("no h1");
  if (!document.documentElement.lang) problems.push("no language");
  let level = 0;
  for (const each of [...document.querySelectorAll("h1, h2, h3")].filter(seen)) {
    const next = Number(each.tagName[1]);
    if (next > level + 2) problems.push(`a heading skips: ${told(each)}`);
    level = next;
  }
  for (const each of document.querySelectorAll("[tabindex]"))
    if (each.tabIndex > 0) problems.push(`a forced order: ${told(each)}`);
  if (document.documentElement.scrollWidth > window.innerWidth + 1)
    problems.push(`wider than the window: ${document.documentElement.scrollWidth}`);

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  function rgba(colour) {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, alpha / 255]);
    }
    return known.get(colour);
  }
  const over = (top, under) => [0, 1, 2].map((index) => top[index] * top[3] + under[index] * (1 - top[3]));
  function ground(element) {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const style = getComputedStyle(each);
      if (style.backgroundImage !== "none" && each !== element) return null;
      layers.push(rgba(style.backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  }
  function luminance(colour) {
    const [red, green, blue] = colour
      .map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const weak = new Set();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !seen(element) || element.closest(".unseen, [aria-hidden=true], :disabled, option, .skip"))
      continue;
    const style = getComputedStyle(element);
    const under = ground(element);
    if (!under || Number(style.opacity) < 1) continue;
    const colour = over(rgba(style.color), under);
    const [light, dark] = [luminance(colour), luminance(under)].sort((one, other) => other - one);
    const ratio = (light + 0.05) / (dark + 0.05);
    const isLarge =
      parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5))
      weak.add(`contrast ${ratio.toFixed(2)}: ${element.className} “${node.data.trim().slice(0, 30)}”`);
  }
  return [...problems, ...weak];
}

function focusOfPage() {
  const each = document.activeElement;
  if (!each || each === document.body) return null;
  const style = getComputedStyle(each);
  const box = each.getBoundingClientRect();
  return {
    name: (each.getAttribute("aria-label") || each.innerText || each.id || "").trim().slice(0, 40),
    top: Math.round(box.top + scrollY),
    isVisible: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || each.classList.contains("skip"),
  };
}
