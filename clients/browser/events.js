// What goes over the wire, for those who build on it: the last events of both sides.

import { $, following, make } from "./shared/dom.js";
import { copyBy } from "./shared/copying.js";

const MOST = 200; // events
const LONGEST = 120; // characters of a text that is shown: pictures and sound are long

export class EventLog {
  // connection: of a Session.
  constructor(connection) {
    this.entries = []; // {time, mark, event, count, element, and its parts}
    this.box = $("event-list");
    connection.addEventListener("wire", ({ detail }) =>
      this.add(detail.isSent ? "↑" : "↓", detail.event),
    );
    $("events").addEventListener("toggle", () => this.show());
    $("copy-events").addEventListener("click", () => this.copy());
    $("clear-events").addEventListener("click", () => this.clear());
  }

  clear() {
    this.entries = [];
    this.show();
  }

  // mark: which way it went.
  add(mark, event) {
    const last = this.entries.at(-1);
    // Sound comes 25 times a second.
    if (last?.mark === mark && last.event.type === event.type && /append$/.test(event.type)) {
      last.count++;
      if (last.element) last.element.querySelector(".count").textContent = ` ×${last.count}`;
      return;
    }
    const entry = { time: performance.now(), mark, event: shortened(event), count: 1 };
    this.entries.push(entry);
    const isFull = this.entries.length > MOST;
    const dropped = isFull ? this.entries.shift() : null;
    if (!$("events").open) return;
    following(this.box, () => {
      dropped?.element?.remove();
      this.box.append(row(entry));
    });
  }

  // Rows are made only for those who look.
  show() {
    if ($("events").open) this.box.replaceChildren(...this.entries.map(row));
    else this.box.replaceChildren();
    this.box.scrollTop = this.box.scrollHeight;
  }

  async copy() {
    const lines = this.entries.map(({ time, mark, event, count }) => {
      const from = mark === "↑" ? "client" : "server";
      return JSON.stringify({ ms: Math.round(time), from, count, event });
    });
    await copyBy($("copy-events"), `${lines.join("\n")}\n`);
  }
}

function row(entry) {
  const { time, mark, event, count } = entry;
  const summary = make(
    "summary",
    "",
    {},
    make("time", "", (time / 1000).toFixed(2)),
    make("span", "mark", { textContent: mark, title: mark === "↑" ? "sent" : "received" }),
    make("span", event.type === "error" ? "type bad" : "type", event.type),
    make("span", "count", count > 1 ? ` ×${count}` : ""),
  );
  const details = make("details", "", {}, summary);
  details.addEventListener(
    "toggle",
    () => details.append(make("pre", "", JSON.stringify(event, null, 2))),
    { once: true },
  );
  entry.element = make("li", "", {}, details);
  return entry.element;
}

// The event without what is too long to be read.
function shortened(event) {
  const cut = (_, value) =>
    typeof value === "string" && value.length > LONGEST
      ? `${value.slice(0, LONGEST)}… (${value.length} characters)`
      : value;
  return JSON.parse(JSON.stringify(event, cut));
}
