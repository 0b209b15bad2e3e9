// Decisions on their way to the disk, one request after the other, in the order they were made.
//
// A decision goes with the version that the reviewer saw. Where the same reviewer decided twice in
// a row, the second decision was made in sight of the first, so it goes with the first's version.

import { RefusedRequest, send } from "./api.js";

export class Saver {
  // events: { saved(answer, items), savedAll(answer), undone(answer), conflict(now, items) -> "mine" | "theirs",
  //         learnt(now), failed(text, items), trouble(text or null, number waiting) }; about() gives what every request carries.
  constructor(about, events) {
    this.about = about;
    this.events = events;
    this.queue = [];
    this.running = false;
  }

  get waiting() {
    return this.queue.length;
  }

  // items: [{ index, action, label, version }]
  decide(items) {
    this.queue.push({ items: items.map((item) => ({ ...item })) });
    this.run();
  }

  // An offer to accept many at once: { kind, n, number }
  decideAll(offer) {
    this.queue.push({ items: null, offer });
    this.run();
  }

  undo() {
    this.queue.push({ items: null, offer: null });
    this.run();
  }

  async run() {
    if (this.running) return;
    this.running = true;
    try {
      while (this.queue.length) {
        await this.sendStep(this.queue[0]);
        this.queue.shift();
      }
      this.events.trouble(null, 0);
    } catch (error) {
      this.events.trouble(reason(error), this.queue.length);
    } finally {
      this.running = false;
    }
  }

  async sendStep(step) {
    if (step.items === null && step.offer !== null) {
      try {
        return this.events.savedAll(await send("api/decide-all", { ...this.about(), ...step.offer }));
      } catch (error) {
        if (!(error instanceof RefusedRequest) || ![400, 409].includes(error.status)) throw error;
        return this.events.failed(error.message, []);
      }
    }
    if (step.items === null) {
      const answer = await send("api/undo", this.about());
      this.updateVersions(answer.undone);
      this.events.undone(answer);
      return;
    }
    while (step.items.length) {
      try {
        const answer = await send("api/decide", {
          ...this.about(),
          items: step.items.map((item) => [item.index, item.action, item.label]),
          seen: Object.fromEntries(step.items.map((item) => [item.index, item.version])),
        });
        this.updateVersions(answer.decided);
        this.events.saved(answer, step.items);
        return;
      } catch (error) {
        if (!(error instanceof RefusedRequest)) throw error;
        if (error.status === 409) await this.settle(step, error.body.now);
        else if (error.status === 400) return this.events.failed(error.message, step.items);
        else throw error;
      }
    }
  }

  // Somebody was faster. Nothing of the step was written; ask which decision shall hold.
  async settle(step, now) {
    const theirs = new Map(now.map((one) => [one.index, one]));
    const differingItems = step.items.filter((item) => {
      const one = theirs.get(item.index);
      return one && !(one.action === item.action && one.label === item.label);
    });
    const choice = differingItems.length ? await this.events.conflict(now, differingItems) : "theirs";
    if (choice === "mine") {
      for (const item of step.items) item.version = theirs.get(item.index)?.version ?? item.version;
    } else {
      step.items = step.items.filter((item) => !theirs.has(item.index));
    }
    this.events.learnt(now);
  }

  // Own decisions that are still waiting were made in sight of these.
  updateVersions(rows) {
    const versions = new Map(rows.map((row) => [row.index, row.version]));
    for (const step of this.queue.slice(1)) {
      for (const item of step.items ?? []) {
        const version = versions.get(item.index);
        if (version === item.version + 1) item.version = version;
      }
    }
  }
}

function reason(error) {
  return error.status === 403 ? "the server was restarted, with another address" : error.message;
}
