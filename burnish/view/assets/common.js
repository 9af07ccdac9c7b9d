// What the parts of a page share: its data, elements made without markup, numbers, the tooltip, the colours.
"use strict";
const page = {};
(() => {
  page.data = JSON.parse(document.getElementById("data").textContent);

  // controls but newline and tab, zero-width and bidirectional characters, separators, tags, lone surrogates
  const HIDDEN =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc\u{d800}-\u{dfff}\u{e0000}-\u{e007f}]/gu;

  // A child that is text becomes a text node: whatever it spells, it is never markup.
  page.el = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
      if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  };

  // Text with the characters that hide or reorder named in place.
  page.shown = (text) => {
    const made = document.createDocumentFragment();
    let at = 0;
    for (const match of text.matchAll(HIDDEN)) {
      made.append(text.slice(at, match.index));
      const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      made.append(page.el("span", { class: "hidden" }, "U+" + code));
      at = match.index + match[0].length;
    }
    made.append(text.slice(at));
    return made;
  };

  // About four characters that differ, as burnish.view.text.number has them.
  page.number = (value) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(1).replace("+", "");
    if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
    if (size >= 10) return value.toFixed(1);
    return value.toFixed(3).replace(/\.?0+$/, "");
  };

  page.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- the tooltip: pairs of name and value beside an element or a place
  const tip = document.getElementById("tip");
  page.tip = (pairs, box) => {
    const list = page.el("dl");
    for (const [name, value] of pairs) {
      const told = page.el("dd");
      told.append(page.shown(String(value)));
      list.append(page.el("dt", {}, name), told);
    }
    tip.replaceChildren(list);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left), document.documentElement.clientWidth - width - 8);
    const above = box.top - height - 6;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above > 8 ? above : box.bottom + 6}px`;
  };
  page.hideTip = () => {
    tip.hidden = true;
  };
  addEventListener("scroll", page.hideTip, { passive: true, capture: true });
  addEventListener("keydown", (event) => event.key === "Escape" && page.hideTip());

  // ---- light and dark: as the system, until the button says otherwise
  const CHOICES = ["", "light", "dark"];
  const NAMES = { "": "as the system", light: "light", dark: "dark" };
  const button = document.getElementById("theme");
  const redraws = [];
  page.onColours = (redraw) => redraws.push(redraw);
  const apply = (choice) => {
    if (choice) document.documentElement.dataset.theme = choice;
    else delete document.documentElement.dataset.theme;
    button.textContent = { "": "◐", light: "☀", dark: "☾" }[choice];
    button.setAttribute("aria-label", `Colours: ${NAMES[choice]}`);
    button.title = `Colours: ${NAMES[choice]}`;
    for (const redraw of redraws) redraw();
  };
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || "";
    apply(CHOICES[(CHOICES.indexOf(now) + 1) % CHOICES.length]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((redraw) => redraw()));
  apply("");
})();
