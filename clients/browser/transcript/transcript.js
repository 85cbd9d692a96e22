// What was said, as it is heard: firm text, dim text, one paragraph per turn.

import { announce, clock, following, make } from "../shared/dom.js";
import { languageName } from "../shared/models.js";
import { Speech } from "./speech.js";

const TRANSCRIPTION = "conversation.item.input_audio_transcription.";
const PROVISIONAL = "lookhear.input_audio_transcription.provisional";
const WORDS = "lookhear.input_audio_transcription.words";
const NEAR = 3000; // ms between the start of a turn and of the same turn, heard again

export class Transcript {
  // box: its element. hint: shown while there is nothing. onChange(): of whether there is anything.
  // begun(time): where the recording, or what else was heard then, began. seeker(time, shown): a
  // button that plays from there, or null. onSeek(time): a word was clicked.
  constructor(box, hint, { onChange, begun, seeker, onSeek }) {
    Object.assign(this, { box, hint, onChange, begun, seeker });
    box.addEventListener("click", ({ target }) => {
      if (!getSelection().isCollapsed) return; // text is being selected
      const word = this.all.flatMap(({ words }) => words).find((w) => w.element === target);
      if (word) onSeek(word.start);
    });
    this.open = new Map(); // turns by item id
    this.lost = []; // turns that are to be heard again: their firm text stays until it is said anew
    this.kept = []; // finished ones, in the order of their speech
  }

  // finished turns, for downloads; see subtitles.js
  get turns() {
    return [...this.kept].sort((a, b) => a.start - b.start);
  }

  // Where the times that are shown and written begin, on the page's clock.
  get origin() {
    const first = this.all.find(({ isTimed }) => isTimed); // others were announced by no voice
    return first ? this.begun(first.start) : 0;
  }

  // Nothing is shown, not even a turn that failed.
  get isBlank() {
    return !this.box.querySelector(".turn");
  }

  // those under way as well
  get all() {
    return [...this.kept, ...this.lost, ...this.open.values()].sort((a, b) => a.start - b.start);
  }

  // What is being said goes on, without what there was of it.
  clear() {
    this.kept = [];
    this.lost = [];
    const open = [...this.open];
    this.open.clear();
    this.box.querySelectorAll(".turn").forEach((element) => element.remove());
    this.hint.hidden = false;
    for (const [id, { start, end, text, cleared }] of open) {
      const turn = this.begin(id, start);
      Object.assign(turn, { end, cleared: cleared + text.length });
    }
    this.onChange();
  }

  // These turns will be heard again from their start. What is firm of them stays.
  lose(ids) {
    for (const id of ids) {
      const turn = this.open.get(id);
      if (!turn) continue;
      const [kept, gone] = turn.before ? [turn.before, turn] : [turn, null];
      gone?.element.remove();
      this.open.delete(id);
      kept.provisional.textContent = "";
      if (kept.text.trim()) this.lost.push(kept);
      else kept.element.remove();
    }
    this.hint.hidden = !this.isBlank;
    this.onChange();
  }

  // A turn that begins near a lost one is that, heard again: it is shown in its place once it has
  // as much to say. What lies further back is not heard again.
  resume(turn) {
    this.lost.sort((a, b) => a.start - b.start);
    while (this.lost.length && this.lost[0].start < turn.start - NEAR) this.keep(this.lost.shift());
    if (!this.lost.length || this.lost[0].start > turn.start + NEAR) return;
    turn.before = this.lost.shift();
    turn.element.hidden = true;
  }

  replace(turn) {
    if (!turn.before) return;
    turn.before.element.replaceWith(turn.element);
    turn.before = null;
    turn.element.hidden = false;
  }

  // Nothing more will come of the open turns: what there is of them stays.
  giveUp() {
    this.lose([...this.open.keys()]);
    while (this.lost.length) this.keep(this.lost.shift());
  }

  keep(turn) {
    turn.text = turn.text.trim();
    this.kept.push(turn);
    this.onChange();
  }

  remove(id) {
    this.open.get(id)?.element.remove();
    this.open.delete(id);
    this.hint.hidden = !this.isBlank;
    this.onChange();
  }

  turn(id) {
    let turn = this.open.get(id);
    if (turn) return turn;
    this.hint.hidden = true;
    this.box.querySelector(".sample")?.remove();
    const speech = new Speech();
    const [time, provisional, note] = [
      make("time"),
      make("span", "provisional"),
      make("span", "note"),
    ];
    const said = make("span", "said", {}, speech.element, provisional, note);
    const element = make("p", "turn", {}, time, said);
    this.box.append(element);
    const { words } = speech;
    const cleared = 0; // characters of its text that are not shown any more
    const start = Math.max(0, ...this.all.map(({ end }) => end)); // unless its time is told
    turn = { start, end: start, text: "", cleared, words, speech };
    Object.assign(turn, { element, time, provisional, note });
    Object.assign(turn, { before: null, isTimed: false });
    this.open.set(id, turn);
    this.onChange();
    return turn;
  }

  // at: when it was begun, on the page's clock.
  begin(id, at) {
    const turn = this.turn(id);
    turn.start = turn.end = at;
    turn.isTimed = true;
    const shown = clock(Math.max(0, at - this.origin));
    turn.time.textContent = shown;
    const seeker = this.seeker(at, shown);
    if (seeker) {
      turn.element.classList.add("replayable");
      turn.time.replaceWith(seeker);
      seeker.append(turn.time);
    }
    return turn;
  }

  // An event of the session; at: milliseconds on the page's clock, where it has a time.
  take(message, at) {
    following(this.box, () => this.show(message, at));
  }

  show(message, at) {
    const id = message.item_id;
    switch (message.type) {
      case "input_audio_buffer.speech_started":
        this.resume(this.begin(id, at));
        break;
      case "input_audio_buffer.speech_stopped":
        this.turn(id).end = at;
        break;
      case TRANSCRIPTION + "delta": {
        const turn = this.turn(id);
        turn.text += message.delta;
        turn.speech.add(message.delta);
        turn.provisional.textContent = "";
        if (turn.before && turn.text.length >= turn.before.text.length) this.replace(turn);
        break;
      }
      case PROVISIONAL:
        this.turn(id).provisional.textContent = message.text;
        break;
      case WORDS: {
        const turn = this.turn(id);
        const ms = (seconds) => turn.start + 1000 * seconds;
        turn.speech.time(
          message.words.map(({ word, start, end }) => ({ word, start: ms(start), end: ms(end) })),
        );
        break;
      }
      case TRANSCRIPTION + "completed":
        this.complete(id, message);
        break;
      case TRANSCRIPTION + "failed":
        this.fail(id, message.error.message);
        break;
    }
  }

  // What is firm of it stays.
  fail(id, why) {
    const turn = this.turn(id);
    this.replace(turn);
    turn.provisional.textContent = "";
    turn.note.textContent = why;
    turn.element.classList.add("failed");
    this.open.delete(id);
    if (turn.text.trim()) this.keep(turn);
  }

  complete(id, message) {
    const turn = this.turn(id);
    turn.text = message.transcript.slice(turn.cleared).trim();
    turn.provisional.textContent = "";
    this.replace(turn);
    if (!turn.text) {
      this.remove(id);
      return;
    }
    const language = message.languages?.[0]?.code;
    if (language) {
      turn.element.lang = language;
      // Said where it changes.
      const isKnown = turn.element.previousElementSibling?.lang === language;
      turn.note.textContent = isKnown ? "" : languageName(language);
      turn.note.lang = "en"; // the page's own
    }
    turn.end = Math.max(turn.end, turn.start + 1000 * (message.usage?.seconds ?? 0));
    this.open.delete(id);
    this.kept.push(turn);
    announce(turn.text);
    this.onChange();
  }
}
