// Questions to the reviewer that stand in front of the page.

import { decision, element, time } from "./drawing.js";

const find = (id) => document.getElementById(id);

// The class whose name was typed or clicked, or null.
export function pickClass(classes, digits) {
  const dialog = find("picker");
  const text = find("picker-text");
  const list = find("picker-list");
  const keys = Object.fromEntries(Object.entries(digits).map(([key, k]) => [k, key]));
  let found = [];
  let at = 0;
  return new Promise((resolve) => {
    const done = (k) => {
      dialog.onclose = null;
      dialog.close();
      resolve(k);
    };
    const draw = () => {
      const wanted = text.value.trim().toLowerCase();
      found = matching(classes, wanted).slice(0, 200);
      at = Math.min(at, Math.max(0, found.length - 1));
      list.replaceChildren(
        ...found.map((k, place) =>
          element("li", { role: "option", id: `pick-${k}`, "aria-selected": String(place === at), onclick: () => done(k) }, keys[k] ? element("kbd", {}, keys[k]) : null, element("span", {}, classes[k])),
        ),
      );
      if (!found.length) list.append(element("li", { class: "note" }, "No class has this in its name."));
      if (found.length) text.setAttribute("aria-activedescendant", `pick-${found[at]}`);
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
        at = (at + step + found.length) % Math.max(1, found.length);
        draw();
      } else if (event.key === "Enter" && found.length) done(found[at]);
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
function matching(classes, wanted) {
  const groups = [[], [], []];
  classes.forEach((name, k) => {
    const lower = name.toLowerCase();
    const place = lower.indexOf(wanted);
    if (place === 0) groups[0].push(k);
    else if (place > 0) groups[/[\s_\-/.]/.test(lower[place - 1]) ? 1 : 2].push(k);
  });
  return groups.flat();
}

// "theirs" or "mine"
export function settle(now, items, nameOf, classes) {
  const dialog = find("conflict");
  const theirs = new Map(now.map((one) => [one.index, one]));
  const rows = items.slice(0, 10).map((item) => {
    const one = theirs.get(item.index);
    return element(
      "tr",
      {},
      element("td", {}, nameOf(item.index)),
      element("td", {}, decision(one.action, one.label, classes), element("span", { class: "by" }, ` by ${one.reviewer}, ${time(one.at)}`)),
      element("td", {}, decision(item.action, item.label, classes)),
    );
  });
  if (items.length > rows.length) rows.push(element("tr", {}, element("td", { colspan: 3 }, `and ${items.length - rows.length} more`)));
  find("conflict-rows").replaceChildren(...rows);
  find("conflict-title").textContent = items.length === 1 ? "This was decided meanwhile" : `${items.length} of these were decided meanwhile`;
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

export function showHelp(classes, digits) {
  const listed = Object.entries(digits).sort(([, i], [, j]) => i - j).map(([key, k]) => `${key} ${classes[k]}`);
  find("digits").textContent = listed.length ? `Another class: ${listed.join(", ")}` : "Another class";
  find("keys").showModal();
  find("keys-close").onclick = () => find("keys").close();
  find("keys-close").focus();
}

// "keep", "accept", "drop" or null
export function pickForAll(text) {
  const dialog = find("bulk");
  find("bulk-text").textContent = text;
  return new Promise((resolve) => {
    const done = (choice) => {
      dialog.onclose = null;
      dialog.close();
      resolve(choice || null);
    };
    for (const button of dialog.querySelectorAll("button")) button.onclick = () => done(button.value);
    dialog.onclose = () => resolve(null);
    dialog.showModal();
    dialog.querySelector("button.first").focus();
  });
}
