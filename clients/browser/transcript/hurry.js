// A recording that is not played but heard as fast as the server can, and how far that has come.

import { $, clock } from "../shared/dom.js";

// ms of sound that the server may have and not have told of. What is sent again where the
// connection is lost may be a little more.
const AHEAD = 150_000;
const LOOK = 500; // ms between two looks at how far it is

export class AtOnce {
  // now(): the end of what was sent; told(): up to where all is told, both on the page's clock.
  // onBegin(): it is not played any more.
  constructor({ now, told, onBegin }) {
    Object.assign(this, { now, told, onBegin });
    this.button = $("at-once");
    this.button.addEventListener("click", () => this.begin());
    this.hide();
  }

  // A recording is played. opened: {hurry(hasRoom)}. duration: ms.
  offer(opened, duration) {
    this.hide();
    Object.assign(this, { opened, duration, start: this.now() });
    this.button.hidden = false;
  }

  begin() {
    this.button.hidden = true;
    this.onBegin();
    this.opened.hurry(() => this.now() - this.told() < AHEAD);
    this.began = performance.now();
    this.first = this.share;
    $("done").hidden = false;
    this.looks = setInterval(() => this.look(), LOOK);
    this.look();
  }

  get share() {
    return Math.min(1, Math.max(0, (this.told() - this.start) / this.duration));
  }

  look() {
    const { share } = this;
    const passed = performance.now() - this.began;
    const left = share > this.first ? (passed * (1 - share)) / (share - this.first) : null;
    const rest = left === null ? "" : `, ${clock(left)} left`;
    $("done").querySelector("progress").value = share;
    $("done").querySelector("span").textContent = `${Math.floor(100 * share)} %${rest}`;
  }

  // Nothing is played any more, or all of it is told.
  hide() {
    clearInterval(this.looks);
    this.button.hidden = $("done").hidden = true;
  }
}
