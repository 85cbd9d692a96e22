// How long the newest turn and answer took, in the page's own time.

const TRANSCRIPTION = "conversation.item.input_audio_transcription.";
const PROVISIONAL = "lookhear.input_audio_transcription.provisional";

export class Latency {
  // hearing, answering: elements for words like "first text 0.6 s".
  constructor(hearing, answering) {
    this.hearing = hearing;
    this.answering = answering;
    this.offset = 0; // what the page's audio lags behind the clock of `performance`
    this.turns = new Map(); // {start, end, first} by item id
    this.created = 0;
  }

  // Audio up to `end` (ms of the page's audio) was just recorded.
  recorded(end) {
    this.offset = performance.now() - end;
  }

  take(message, at) {
    const turn = this.turns.get(message.item_id);
    switch (message.type) {
      case "input_audio_buffer.speech_started":
        this.turns.set(message.item_id, { start: this.offset + at, end: 0, first: 0 });
        break;
      case "input_audio_buffer.speech_stopped":
        if (turn) turn.end = this.offset + at;
        break;
      case PROVISIONAL:
      case TRANSCRIPTION + "delta":
        if (turn && !turn.first && (message.text ?? message.delta)) {
          turn.first = performance.now();
          this.show(turn);
        }
        break;
      case TRANSCRIPTION + "completed":
        if (turn) this.show(turn, performance.now());
        this.turns.delete(message.item_id);
        break;
      case "response.created":
        this.created = performance.now();
        break;
      case "response.output_text.delta":
        if (this.created) this.answering.textContent = after("first word", this.created);
        this.created = 0;
        break;
    }
  }

  show({ start, end, first }, completed) {
    const parts = first ? [after("first text", start, first)] : [];
    if (completed && end) parts.push(after("complete", end, completed));
    this.hearing.textContent = parts.join(", ");
  }
}

function after(what, from, to = performance.now()) {
  return `${what} after ${(Math.max(0, to - from) / 1000).toFixed(1)} s`;
}
