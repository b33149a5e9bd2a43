// The map of shards: a square each, coloured by its worker; a square that moves lights up until it has settled.

import { h, replace } from "../../core/dom.js";
import { plural } from "../../core/format.js";
import { badge, card } from "../../parts/parts.js";

/** Milliseconds for which a shard that changed its worker stays marked. */
const MARKED = 8000;
/** The golden angle keeps the hues of neighbours apart. */
const ANGLE = 137.508;

export function shardMap() {
  const squares = h("ol", { class: "shards" });
  const legend = h("div", { class: "row small soft" });
  const said = h("p", { class: "small soft", "aria-live": "polite" });
  const view = card("Shards", h("div", { class: "stack" }, squares, legend, said));
  const known = new Map();
  const hues = new Map();
  const moved = new Map();

  function update({ shards = [], at }) {
    for (const { shard, holder } of shards) {
      if (known.has(shard) && known.get(shard) !== holder) moved.set(shard, { at, from: known.get(shard), to: holder });
      known.set(shard, holder);
    }
    for (const holder of [...new Set(known.values())].filter(Boolean).sort(natural)) {
      if (!hues.has(holder)) hues.set(holder, Math.round((hues.size * ANGLE + 195) % 360));
    }
    for (const [shard, move] of moved) if (at - move.at > MARKED) moved.delete(shard);
    squares.children.length === shards.length ? shards.forEach(repaint) : replace(squares, shards.map(square));
    draw(shards);
  }

  const square = (entry, index) => paint(h("li"), entry, index);
  const repaint = (entry, index) => paint(squares.children[index], entry);

  function paint(item, { shard, holder, state }) {
    const isMoving = moved.has(shard);
    const words = `Shard ${shard}: ${holder ?? "no worker"}${state && state !== "open" ? `, ${state}` : ""}`;
    if (item.title !== words || item.dataset.moving !== String(isMoving)) {
      item.title = words;
      item.dataset.moving = String(isMoving);
      item.dataset.state = holder ? (state ?? "open") : "none";
      item.style.setProperty("--hue", hues.get(holder) ?? 0);
      replace(item, h("span", { "aria-hidden": "true" }, shard), h("span", { class: "unseen" }, words));
    }
    return item;
  }

  function draw(shards) {
    const holders = new Map();
    for (const { holder } of shards) holders.set(holder ?? "no worker", (holders.get(holder ?? "no worker") ?? 0) + 1);
    const names = [...holders].sort(([one], [other]) => natural(one, other));
    replace(
      legend,
      names.length > 12
        ? badge(`${plural(names.length, "worker")}, up to ${Math.max(...holders.values())} shards each`)
        : names.map(([name, count]) =>
            h("span", { class: "holder", vars: { "--hue": hues.get(name) ?? 0 } }, h("i"), `${name} ${count}`),
          ),
    );
    const moves = [...moved].map(([shard, { from, to }]) => `${shard}: ${from ?? "no worker"} → ${to ?? "no worker"}`);
    const words = moves.length
      ? `Moving: ${moves.slice(0, 6).join("; ")}${moves.length > 6 ? ` and ${moves.length - 6} more` : ""}`
      : "";
    if (said.textContent !== words) replace(said, words);
  }

  return { view, update };
}

/** `worker-2` before `worker-10`. */
export const natural = (one, other) => String(one).localeCompare(String(other), "en", { numeric: true });
