// Light or dark: as the system has it, unless the reader chose.

const KEY = "aquifer-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

export const isDark = () => document.documentElement.dataset.theme === "dark";

export function apply() {
  const chosen = localStorage.getItem(KEY);
  document.documentElement.dataset.theme = chosen ?? (dark.matches ? "dark" : "light");
}

export function toggle() {
  localStorage.setItem(KEY, isDark() ? "light" : "dark");
  apply();
}

export function start() {
  apply();
  dark.addEventListener("change", apply);
}
