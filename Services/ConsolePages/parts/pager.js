// Long lists, a page at a time: with a cursor of the server, or over an array that is here already.

import { h, replace } from "../core/dom.js";
import { count } from "../core/format.js";
import { button, loading, place } from "./parts.js";

export const PAGE = 50;

/** `load(cursor)` answers `{rows, next, total}`; `view(rows)` shows one page. Earlier pages can be gone back to. */
export function paged(load, view, signal) {
  const content = place();
  const foot = h("div", { class: "pager", hidden: true });
  const cursors = [undefined];
  let index = 0;
  const show = () =>
    loading(
      content,
      () => load(cursors[index], signal),
      (answer) => {
        update(answer);
        return view(answer.rows, answer);
      },
      signal,
    );
  const move = (by) => {
    index += by;
    return show();
  };
  function update({ next, total, rows }) {
    if (next !== undefined && next !== null) cursors[index + 1] = next;
    else cursors.length = index + 1;
    const label = total === undefined ? `Page ${index + 1}` : `${count(total)} in all, page ${index + 1}`;
    foot.hidden = index === 0 && cursors.length === 1;
    replace(
      foot,
      h("span", { role: "status" }, label),
      h("span", { class: "rest" }),
      button("Previous", () => move(-1), { disabled: index === 0 }),
      button("Next", () => move(1), { disabled: index + 1 >= cursors.length || rows.length === 0 }),
    );
  }
  show();
  const reset = () => {
    index = 0;
    return show();
  };
  return { view: h("div", null, content, foot), reload: show, reset };
}

/** Pages of an array, from `rows()` at the time of each look. */
export function pagedArray(rows, view, signal, size = PAGE) {
  const load = async (cursor = 0) => {
    const all = await rows();
    const end = cursor + size;
    return { rows: all.slice(cursor, end), next: end < all.length ? end : null, total: all.length };
  };
  return paged(load, view, signal);
}
