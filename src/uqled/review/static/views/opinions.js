// A second reviewer: opinions on others' decisions, given without sight of them, and how far the two
// agree.

import { ask } from "./api.js";
import { formatNumber, makeElement } from "./drawing.js";
import { find } from "./state.js";

let listOpinions = () => {};
let listDifferences = () => {};

export const onSecond = (listener) => (listOpinions = listener);
export const onDiffer = (listener) => (listDifferences = listener);

export async function showAgreement(reviewer) {
  const { waiting, differ, pairs } = await ask("api/agreement", { reviewer });
  find("second").hidden = waiting === 0;
  find("second").textContent = `Give a second opinion: ${formatNumber(waiting)} decided by others`;
  find("second").onclick = () => listOpinions(reviewer);
  const rows = pairs.map(({ reviewers, n, same, kappa }) => makeElement("li", {}, `${reviewers.join(" and ")} agree on ${formatNumber(same)} of ${formatNumber(n)}${kappa === null ? "" : `; Cohen’s kappa ${kappa.toFixed(2)}`}.`));
  find("agreement").replaceChildren(...rows);
  find("differ").hidden = differ === 0;
  find("differ").textContent = `Show where reviewers differ: ${formatNumber(differ)}`;
  find("differ").onclick = () => listDifferences();
}
