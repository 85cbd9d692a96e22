// How long things take, on the page's own clock, from what it recorded and the events it got:
//
// first text  from the first sound of a turn to its first text, firm or dim
// commit lag  from the end of a word to the moment its text is firm, where words have times
// tick        between two updates of the text
// final text  from the end of speech to the whole text, the silence that ends a turn included

const TRANSCRIPTION = "conversation.item.input_audio_transcription.";
const PROVISIONAL = "lookhear.input_audio_transcription.provisional";
const WORDS = "lookhear.input_audio_transcription.words";
const SAME_TICK = 30; // ms within which events are of one tick
const RECENT = 25; // pieces of audio whose soonest arrival tells the clock
const HEARD = 8; // words whose slowest sets how far the highlight stays behind
const LONGEST_DELAY = 4000;

export class Latency {
  // graph: where it is shown. answering: an element for the time of the newest answer.
  constructor(graph, answering) {
    this.graph = graph;
    this.answering = answering;
    this.turns = new Map(); // {start, end, first, tick} by item id
    this.created = 0;
    this.padding = this.silence = 0;
    this.begin();
  }

  // Recording begins.
  begin() {
    this.recent = [];
    this.offset = null; // what the page's audio lags behind the clock of `performance`
    this.heard = []; // how long ago the newest words began when they came
    this.time = this.looked = null; // the playhead, and when it was looked at
    this.last = 0; // the end of the newest word
  }

  // Audio up to `end` (ms of the page's audio) was just recorded.
  recorded(end) {
    this.recent = [...this.recent.slice(1 - RECENT), performance.now() - end];
    this.offset = Math.min(...this.recent);
  }

  // session: of `session.updated`; what it adds around the speech of a turn.
  configure(session) {
    const detection = session.audio.input.turn_detection ?? {};
    this.padding = detection.prefix_padding_ms ?? 0;
    this.silence = detection.silence_duration_ms ?? 0;
  }

  // Where the words are lit that are spoken now, so far behind that their text is there: ms of the
  // page's audio, null while there are none.
  playhead() {
    if (this.offset === null || !this.heard.length) return null;
    const now = performance.now();
    const delay = Math.min(LONGEST_DELAY, Math.max(...this.heard));
    const wanted = now - this.offset - delay;
    const passed = now - (this.looked ?? now);
    this.looked = now;
    this.time ??= wanted;
    // Slower or faster than speech for a while, never backwards: not where the microphone falters
    // and all that follows comes later, either.
    this.time += Math.max(0.2 * passed, Math.min(1.3 * passed, wanted - this.time));
    return this.time > this.last + 1500 ? null : this.time;
  }

  take(message, at) {
    const now = performance.now();
    const turn = this.turns.get(message.item_id);
    switch (message.type) {
      case "input_audio_buffer.speech_started": {
        this.turns.set(message.item_id, { start: at, end: null, first: false, tick: 0 });
        break;
      }
      case "input_audio_buffer.speech_stopped":
        if (turn) turn.end = at - this.silence;
        break;
      case PROVISIONAL:
      case TRANSCRIPTION + "delta":
        if (turn && (message.text ?? message.delta)) this.update(turn, now);
        break;
      case WORDS:
        if (turn) this.commit(turn, message.words, now);
        break;
      case TRANSCRIPTION + "completed":
        if (turn?.end != null && message.transcript.trim()) this.add("final", turn.end, now);
        this.turns.delete(message.item_id);
        break;
      case TRANSCRIPTION + "failed":
        this.turns.delete(message.item_id);
        break;
      case "response.created":
        this.created = now;
        break;
      case "response.output_text.delta":
        if (this.created) {
          const seconds = ((now - this.created) / 1000).toFixed(2);
          this.answering.textContent = `first word after ${seconds} s`;
        }
        this.created = 0;
        break;
    }
  }

  // from: ms of the page's audio.
  add(series, from, now) {
    if (this.offset !== null) this.graph.add(series, now - this.offset - from);
  }

  update(turn, now) {
    if (!turn.first) this.add("first", turn.start + this.padding, now);
    else if (now - turn.tick > SAME_TICK) this.graph.add("tick", now - turn.tick);
    else return;
    turn.first = true;
    turn.tick = now;
  }

  commit(turn, words, now) {
    for (const { start, end } of words) {
      const time = turn.start + 1000 * end;
      this.add("lag", time, now);
      this.last = Math.max(this.last, time);
      if (this.offset === null) continue;
      const began = this.offset + turn.start + 1000 * start;
      this.heard = [...this.heard.slice(1 - HEARD), now - began];
    }
  }
}
