"use strict";
// Light or dark as the system is, until the button says otherwise. `changed` draws again what has
// its colours from style.css only once.

function followTheme(changed = () => {}) {
  const button = document.getElementById("theme");
  const set = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  set(dark.matches);
  dark.addEventListener("change", () => (set(dark.matches), changed()));
  button.addEventListener("click", () => {
    set(document.documentElement.dataset.theme !== "dark");
    changed();
  });
}
