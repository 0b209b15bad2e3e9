// Questions to the reviewer that stand in front of the page.

import { describeDecision, formatNumber, formatTime, makeElement } from "./drawing.js";
import { find } from "./state.js";

const LISTED = 200; // classes in the list at a time: typing finds the others

// The class whose name was typed or clicked; null if none was, "" for any. The `first` classes head
// the list; `listed` are all to choose from, with `counts` beside them.
export function pickClass(title, classes, first, { listed = null, counts = null, any = false } = {}) {
  const dialog = find("picker");
  const text = find("picker-text");
  const list = find("picker-list");
  const all = [...new Set([...first, ...(listed ?? classes.map((_, k) => k))])];
  let matches = [];
  let at = 0;
  find("picker-title").textContent = title;
  return new Promise((resolve) => {
    const done = (k) => {
      dialog.onclose = null;
      dialog.close();
      resolve(k);
    };
    const draw = () => {
      const typedText = text.value.trim().toLowerCase();
      const fitting = findMatches(classes, all, typedText);
      matches = [...(any && !typedText ? [""] : []), ...fitting.slice(0, LISTED)];
      at = Math.min(at, Math.max(0, matches.length - 1));
      list.replaceChildren(
        ...matches.map((k, place) =>
          makeElement("li", { role: "option", id: `pick-${k}`, "aria-selected": String(place === at), onclick: () => done(k) }, makeElement("span", {}, k === "" ? "any class" : classes[k]), counts && k !== "" ? makeElement("span", { class: "p" }, formatNumber(counts[k])) : null),
        ),
      );
      if (!matches.length) list.append(makeElement("li", { class: "note" }, "No class has this in its name."));
      if (fitting.length > LISTED) list.append(makeElement("li", { class: "note" }, `${formatNumber(fitting.length - LISTED)} more: type a part of the name.`));
      if (matches.length) text.setAttribute("aria-activedescendant", `pick-${matches[at]}`);
      else text.removeAttribute("aria-activedescendant");
      list.children[at]?.scrollIntoView({ block: "nearest" });
    };
    text.value = "";
    text.oninput = () => {
      at = 0;
      draw();
    };
    text.onkeydown = (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        at = (at + step + matches.length) % Math.max(1, matches.length);
        draw();
      } else if (event.key === "Enter" && matches.length) done(matches[at]);
      else return;
      event.preventDefault();
    };
    find("picker-cancel").onclick = () => done(null);
    dialog.onclose = () => resolve(null);
    draw();
    dialog.showModal();
    text.focus();
  });
}

// Names that begin so, then those with a word that does, then those that hold it anywhere.
function findMatches(classes, all, typedText) {
  const groups = [[], [], []];
  all.forEach((k) => {
    const lower = classes[k].toLowerCase();
    const place = lower.indexOf(typedText);
    if (place === 0) groups[0].push(k);
    else if (place > 0) groups[/[\s_\-/.]/.test(lower[place - 1]) ? 1 : 2].push(k);
  });
  return groups.flat();
}

// "theirs" or "mine"
export function settle(now, items, getName, classes) {
  const dialog = find("conflict");
  const theirs = new Map(now.map((one) => [one.index, one]));
  const rows = items.slice(0, 10).map((item) => {
    const one = theirs.get(item.index);
    return makeElement(
      "tr",
      {},
      makeElement("td", {}, getName(item.index)),
      makeElement("td", {}, describeDecision(one.action, one.label, classes), makeElement("span", { class: "by" }, ` by ${one.reviewer}, ${formatTime(one.at)}`)),
      makeElement("td", {}, describeDecision(item.action, item.label, classes)),
    );
  });
  if (items.length > rows.length) rows.push(makeElement("tr", {}, makeElement("td", { colspan: 3 }, `and ${items.length - rows.length} more`)));
  find("conflict-rows").replaceChildren(...rows);
  find("conflict-title").textContent = items.length === 1 ? "Somebody decided this in the meantime" : `${items.length} of these were decided in the meantime`;
  return new Promise((resolve) => {
    const done = (choice) => {
      dialog.onclose = null;
      dialog.close();
      resolve(choice);
    };
    find("theirs").onclick = () => done("theirs");
    find("mine").onclick = () => done("mine");
    dialog.onclose = () => resolve("theirs"); // Esc
    dialog.showModal();
    find("theirs").focus();
  });
}

export function showHelp() {
  find("keys").showModal();
  find("keys-close").onclick = () => find("keys").close();
  find("keys-close").focus({ preventScroll: true });
  find("keys").scrollTop = 0;
}

// One of the offers, or null. Each says how many errors to expect.
export function pickBulk({ bulk }) {
  const dialog = find("bulk");
  return new Promise((resolve) => {
    const done = (choice) => {
      dialog.onclose = null;
      dialog.close();
      resolve(choice);
    };
    const whole = (value) => formatNumber(Math.round(value));
    find("bulk-offers").replaceChildren(
      ...bulk.map((offer) => {
        const what = offer.kind === "next" ? `the next ${formatNumber(offer.n)}` : `all ${formatNumber(offer.n)} above 95%`;
        const { value, low } = offer.errors;
        const right = offer.n - Math.floor(low);
        return makeElement("li", {}, makeElement("button", { type: "button", onclick: () => done(offer) }, `Accept ${what}`), makeElement("span", { class: "note" }, `${whole(value)} errors expected, at most ${whole(right)} right ${right === 1 ? "label" : "labels"}`));
      }),
    );
    find("bulk-cancel").onclick = () => done(null);
    dialog.onclose = () => resolve(null);
    dialog.showModal();
    find("bulk-cancel").focus();
  });
}
