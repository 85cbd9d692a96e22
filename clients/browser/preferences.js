// How the session is to hear: which microphone, when a turn ends, what is expected to be said.

import { $ } from "./shared/dom.js";
import { Microphones } from "./media/microphones.js";

const UNHEARD = "This server has no model for that: a longer silence ends turns.";

export class Preferences {
  // session: is told. onMicrophone(): another one was chosen.
  constructor(session, onMicrophone) {
    this.microphones = new Microphones(onMicrophone);
    $("turn-end").addEventListener("change", ({ target }) =>
      session.configure({ turnEnd: target.value }),
    );
    $("voices").addEventListener("change", ({ target }) =>
      session.configure({ voices: target.value }),
    );
    $("prompt").addEventListener("change", ({ target }) =>
      session.configure({ prompt: target.value.trim() }),
    );
    session.addEventListener("ready", ({ detail }) => {
      const isHeard = detail.session.lookhear?.turn_end !== "silence";
      $("turn-end-note").textContent = isHeard ? "" : UNHEARD;
    });
  }
}
