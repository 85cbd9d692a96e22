// Recordings that were opened: a video is watched while it is heard, and all can be played again.

import { make } from "../shared/dom.js";
import { watch } from "../media/pictures.js";

const ROUNDED = 1; // ms: where an element stands may be a little before where it was put

export class Player {
  // box, title: its elements. now(): on the page's clock. onFrame(picture, timestamp_ms) as of a
  // Camera. onPlay(): it plays, or stands elsewhere. onHeard(): for the first time.
  constructor(box, title, { now, onFrame, onPlay, onHeard }) {
    Object.assign(this, { box, title, now, onFrame, onPlay, onHeard });
    this.all = []; // {name, element, hasVideo, start, end: when it was heard, on the page's clock}
    this.shown = null;
    this.isFirst = false; // it is being heard for the first time
    this.isHurried = false; // and not played
    this.unwatch = () => {};
  }

  // -> a recording; without an element where the browser cannot play it.
  async open(file) {
    const url = URL.createObjectURL(file);
    const recording = { name: file.name, url, element: null, hasVideo: false };
    let element = await loaded("video", url);
    recording.hasVideo = Boolean(element?.videoWidth);
    if (element && !recording.hasVideo) {
      element.removeAttribute("src"); // reads no more
      element = await loaded("audio", url);
    }
    if (element) {
      element.className = "recording";
      element.setAttribute("aria-label", `${file.name}, to play again`);
      for (const type of ["play", "timeupdate", "seeked"])
        element.addEventListener(type, () => this.onPlay());
      recording.element = element;
    }
    return recording;
  }

  // It is heard from now on. isWatched: its frames are shown to the model.
  begin(recording, isWatched) {
    this.pause();
    Object.assign(recording, { start: this.now(), end: Infinity });
    this.all.push(recording);
    this.show(recording);
    this.isFirst = true;
    this.title.textContent = `${recording.name} is being heard`;
    const { element, hasVideo } = recording;
    if (element) element.controls = false;
    if (!hasVideo) return;
    element.muted = true; // its sound goes another way
    element.addEventListener("ended", () => this.unwatch(), { once: true });
    element.play().catch(() => {}); // it was ended before it began
    if (isWatched) this.unwatch = watch(element, this.onFrame);
  }

  // It is heard faster than it is played.
  hurry() {
    this.isHurried = true;
    this.shown.element?.pause();
  }

  // It was heard, as far as was wanted.
  finish() {
    if (!this.isFirst) return;
    this.isFirst = this.isHurried = false;
    this.unwatch();
    this.unwatch = () => {};
    this.shown.end = this.now();
    this.onHeard();
    this.title.textContent = this.shown.name;
    const { element } = this.shown;
    if (!element) return;
    element.pause();
    element.currentTime = 0;
    element.muted = false;
    element.controls = true;
  }

  show(recording) {
    this.shown = recording;
    this.title.textContent = recording.name;
    this.box.querySelector(".recording")?.remove();
    if (recording.element) this.box.append(recording.element);
    this.box.hidden = false;
  }

  pause() {
    this.finish();
    this.shown?.element?.pause();
  }

  clear() {
    this.pause();
    for (const { url } of this.all) URL.revokeObjectURL(url);
    this.all = [];
    this.shown = null;
    this.box.querySelector(".recording")?.remove();
    this.box.hidden = true;
  }

  // What was heard at a moment of the page's clock, if it can be played again.
  at(time) {
    return this.all.find(({ element, start, end }) => element && start <= time && time < end);
  }

  // Plays from a moment of the page's clock.
  seek(time) {
    const recording = this.at(time);
    if (this.isFirst || !recording) return;
    const { element, start } = recording;
    if (recording !== this.shown) {
      this.pause();
      this.show(recording);
      element.controls = true;
    }
    const from = (time - start + ROUNDED) / 1000;
    element.currentTime = Math.min(from, element.duration || Infinity);
    element.play().catch(() => {}); // paused at once
  }

  // Where it plays, or stands after it has played, on the page's clock; null: nowhere.
  get time() {
    const { element, start, end } = this.shown ?? {};
    if (this.isFirst || !element || element.ended) return null;
    if (element.paused && !element.currentTime) return null;
    const time = start + 1000 * element.currentTime;
    return time < end ? time : null;
  }

  // A button that plays from a moment of the page's clock, null where nothing can be played. shown:
  // how that moment is told.
  button(time, shown) {
    if (!this.at(time)) return null;
    const label = `Play from ${shown}`;
    const button = make("button", "seek", { type: "button", ariaLabel: label });
    button.addEventListener("click", () => this.seek(time));
    return button;
  }
}

// -> an element that plays it, or null
function loaded(tag, src) {
  return new Promise((resolve) => {
    const element = make(tag, "", { preload: "auto", controls: true, playsInline: true });
    element.onloadedmetadata = () => resolve(element);
    element.onerror = () => resolve(null);
    element.src = src;
  });
}
