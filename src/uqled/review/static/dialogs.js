// Questions to the reviewer that stand in front of the page.

import { describeDecision, formatNumber, formatTime, makeElement } from "./drawing.js";
import { find } from "./state.js";

const N_LISTED = 200; // classes in the list at a time: typing finds the others

// The class whose name was typed or clicked; null if none was, "" for any. The `firstClasses` head
// the list; `listed` are all to choose from, with `counts` beside them.
export function pickClass(title, classes, firstClasses, { listed = null, counts = null, any = false } = {}) {
  const dialog = find("picker");
  const text = find("picker-text");
  const list = find("picker-list");
  const candidates = [...new Set([...firstClasses, ...(listed ?? classes.map((_, k) => k))])];
  let matches = [];
  let at = 0;
  find("picker-title").textContent = title;
  return new Promise((resolve) => {
    const finish = (k) => {
      dialog.onclose = null;
      dialog.close();
      resolve(k);
    };
    const draw = () => {
      const typedText = text.value.trim().toLowerCase();
      const fitting = findMatches(classes, candidates, typedText);
      matches = [...(any && !typedText ? [""] : []), ...fitting.slice(0, N_LISTED)];
      at = Math.min(at, Math.max(0, matches.length - 1));
      list.replaceChildren(
        ...matches.map((k, place) =>
          makeElement("li", { role: "option", id: `pick-${k}`, "aria-selected": String(place === at), onclick: () => finish(k) }, makeElement("span", {}, k === "" ? "any class" : classes[k]), counts && k !== "" ? makeElement("span", { class: "p" }, formatNumber(counts[k])) : null),
        ),
      );
      if (!matches.length) list.append(makeElement("li", { class: "note" }, "No class has this in its name."));
      if (fitting.length > N_LISTED) list.append(makeElement("li", { class: "note" }, `${formatNumber(fitting.length - N_LISTED)} more: type a part of the name.`));
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
      } else if (event.key === "Enter" && matches.length) finish(matches[at]);
      else return;
      event.preventDefault();
    };
    find("picker-cancel").onclick = () => finish(null);
    dialog.onclose = () => resolve(null);
    draw();
    dialog.showModal();
    text.focus();
  });
}

// Names that begin so, then those with a word that does, then those that hold it anywhere.
function findMatches(classes, candidates, typedText) {
  const groups = [[], [], []];
  candidates.forEach((k) => {
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
  const theirs = new Map(now.map((decision) => [decision.index, decision]));
  const rows = items.slice(0, 10).map((item) => {
    const decision = theirs.get(item.index);
    return makeElement(
      "tr",
      {},
      makeElement("td", {}, getName(item.index)),
      makeElement("td", {}, describeDecision(decision.action, decision.label, classes), makeElement("span", { class: "by" }, ` by ${decision.reviewer}, ${formatTime(decision.at)}`)),
      makeElement("td", {}, describeDecision(item.action, item.label, classes)),
    );
  });
  if (items.length > rows.length) rows.push(makeElement("tr", {}, makeElement("td", { colspan: 3 }, `and ${items.length - rows.length} more`)));
  find("conflict-rows").replaceChildren(...rows);
  find("conflict-title").textContent = items.length === 1 ? "Somebody decided this in the meantime" : `${items.length} of these were decided in the meantime`;
  return new Promise((resolve) => {
    const finish = (choice) => {
      dialog.onclose = null;
      dialog.close();
      resolve(choice);
    };
    find("theirs").onclick = () => finish("theirs");
    find("mine").onclick = () => finish("mine");
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
    const finish = (choice) => {
      dialog.onclose = null;
      dialog.close();
      resolve(choice);
    };
    const formatWhole = (value) => formatNumber(Math.round(value));
    find("bulk-offers").replaceChildren(
      ...bulk.map((offer) => {
        const what = offer.kind === "next" ? `the next ${formatNumber(offer.n)}` : `all ${formatNumber(offer.n)} above 95%`;
        const { value, low } = offer.errors;
        const nRight = offer.n - Math.floor(low);
        return makeElement("li", {}, makeElement("button", { type: "button", onclick: () => finish(offer) }, `Accept ${what}`), makeElement("span", { class: "note" }, `${formatWhole(value)} errors expected, at most ${formatWhole(nRight)} right ${nRight === 1 ? "label" : "labels"}`));
      }),
    );
    find("bulk-cancel").onclick = () => finish(null);
    dialog.onclose = () => resolve(null);
    dialog.showModal();
    find("bulk-cancel").focus();
  });
}
