// Which microphone is used. It is remembered in this browser.

import { $ } from "../shared/dom.js";

const REMEMBERED = "lookhear.microphone";

export class Microphones {
  // onChoice(): another one was chosen.
  constructor(onChoice) {
    this.list = $("microphone");
    this.chosen = remembered();
    this.list.addEventListener("change", () => {
      this.chosen = this.list.value;
      remember(this.chosen);
      onChoice();
    });
    navigator.mediaDevices?.addEventListener?.("devicechange", () => this.refresh());
    this.refresh();
  }

  // Browsers name them only once a microphone was allowed: call it then again.
  async refresh() {
    const devices = (await navigator.mediaDevices?.enumerateDevices?.().catch(() => [])) ?? [];
    const named = devices.filter(
      ({ kind, deviceId, label }) =>
        // Chromium lists its default twice.
        kind === "audioinput" && label && deviceId !== "default" && deviceId !== "communications",
    );
    const options = named.map(({ deviceId, label }) => new Option(label, deviceId));
    this.list.replaceChildren(new Option("browser's choice", ""), ...options);
    // One that is not there just now is waited for: it is an ideal, not a must.
    this.list.value = named.some(({ deviceId }) => deviceId === this.chosen) ? this.chosen : "";
  }
}

// A browser may keep nothing for a page.
function remembered() {
  try {
    return localStorage.getItem(REMEMBERED) ?? "";
  } catch {
    return "";
  }
}

function remember(id) {
  try {
    localStorage.setItem(REMEMBERED, id);
  } catch {
    // it is chosen until the page is closed
  }
}
