// Lights the word that is spoken at the playhead; the whole turn where words have no times.

const STEP = 40; // ms between two looks
const LINGER = 400; // ms that a word stays lit into the pause after it

export class Highlight {
  // turns(): {start, end, words, speech}, sorted. playhead(): milliseconds on the page's clock, null
  // where nothing is spoken. onLit(element): another word.
  constructor(turns, playhead, onLit) {
    Object.assign(this, { turns, playhead, onLit });
    this.timer = 0;
    this.time = null; // of the last look
    this.lit = null;
  }

  // There may be something to light from now on.
  wake() {
    this.timer ||= setTimeout(() => this.step(), STEP);
  }

  step() {
    this.timer = 0;
    const time = this.playhead();
    const element = time === null ? null : this.spokenAt(time);
    if (element !== this.lit) {
      this.lit?.classList.remove("lit");
      element?.classList.add("lit");
      this.lit = element;
      if (element) this.onLit(element);
    }
    if (time !== null && time !== this.time) this.wake();
    this.time = time;
  }

  spokenAt(time) {
    const turn = this.turns().findLast(({ start }) => start <= time);
    if (!turn) return null;
    if (!turn.words.length) return time < turn.end ? turn.speech.element : null;
    const word = turn.words.findLast(({ start }) => start <= time);
    return word && time < word.end + LINGER ? word.element : null;
  }
}
