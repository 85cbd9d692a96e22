// What was said, as it is heard: firm text, dim text, one paragraph per turn.

import { announce, clock, following, make } from "./dom.js";

const TRANSCRIPTION = "conversation.item.input_audio_transcription.";
const PROVISIONAL = "lookhear.input_audio_transcription.provisional";
const WORDS = "lookhear.input_audio_transcription.words";

export class Transcript {
  // box: its element. hint: shown while there is nothing. onChange: of whether there is text.
  constructor(box, hint, onChange) {
    this.box = box;
    this.hint = hint;
    this.onChange = onChange;
    this.open = new Map(); // turns by item id
    this.kept = []; // finished ones, in the order of their speech
  }

  // finished turns, for downloads; see subtitles.js
  get turns() {
    return [...this.kept].sort((a, b) => a.start - b.start);
  }

  clear() {
    this.kept = [];
    this.open.clear();
    this.box.querySelectorAll(".turn").forEach((element) => element.remove());
    this.hint.hidden = false;
    this.onChange();
  }

  // These turns will be heard again from their start.
  lose(ids) {
    for (const id of ids) this.remove(id);
  }

  // Nothing more will come of the open turns: what there is of them stays.
  giveUp() {
    for (const [id, turn] of [...this.open])
      this.complete(id, { transcript: turn.text, usage: { seconds: 0 } });
  }

  remove(id) {
    this.open.get(id)?.element.remove();
    this.open.delete(id);
    this.hint.hidden = this.box.querySelector(".turn") !== null;
  }

  turn(id) {
    let turn = this.open.get(id);
    if (turn) return turn;
    this.hint.hidden = true;
    const [time, committed, provisional, note] = [
      make("time"),
      make("span", "committed"),
      make("span", "provisional"),
      make("span", "note"),
    ];
    const element = make("p", "turn", {}, time, make("span", "", {}, committed, provisional, note));
    this.box.append(element);
    turn = { start: 0, end: 0, text: "", words: [], element, time, committed, provisional, note };
    this.open.set(id, turn);
    return turn;
  }

  // An event of the session; at: milliseconds on the page's clock, where it has a time.
  take(message, at) {
    following(this.box, () => this.show(message, at));
  }

  show(message, at) {
    const id = message.item_id;
    switch (message.type) {
      case "input_audio_buffer.speech_started": {
        const turn = this.turn(id);
        turn.start = turn.end = at;
        turn.time.textContent = clock(at);
        break;
      }
      case "input_audio_buffer.speech_stopped":
        this.turn(id).end = at;
        break;
      case TRANSCRIPTION + "delta": {
        const turn = this.turn(id);
        turn.text += message.delta;
        turn.committed.textContent = turn.text;
        turn.provisional.textContent = "";
        break;
      }
      case PROVISIONAL:
        this.turn(id).provisional.textContent = message.text;
        break;
      case WORDS: {
        const turn = this.turn(id);
        const ms = (seconds) => turn.start + 1000 * seconds;
        for (const { word, start, end } of message.words)
          turn.words.push({ word, start: ms(start), end: ms(end) });
        break;
      }
      case TRANSCRIPTION + "completed":
        this.complete(id, message);
        break;
      case TRANSCRIPTION + "failed":
        this.turn(id).provisional.textContent = "";
        this.turn(id).note.textContent = message.error.message;
        this.turn(id).element.classList.add("failed");
        this.open.delete(id);
        break;
    }
  }

  complete(id, message) {
    const turn = this.turn(id);
    turn.text = message.transcript.trim();
    turn.provisional.textContent = "";
    if (!turn.text) {
      this.remove(id);
      return;
    }
    turn.note.textContent = message.languages?.[0]?.code ?? "";
    turn.end = Math.max(turn.end, turn.start + 1000 * (message.usage?.seconds ?? 0));
    this.open.delete(id);
    this.kept.push(turn);
    announce(turn.text);
    this.onChange();
  }
}
