// What was recorded and may have to be sent again. Times are milliseconds of the page's audio.

const SAMPLES_PER_MS = 24;
const LONGEST = 180_000;
const SURE = 10_000;

export class ReplayBuffer {
  constructor() {
    this.pieces = []; // {start, end, pcm}
    this.end = 0;
  }

  // pcm: ArrayBuffer of 16-bit samples at 24 kHz. -> whether nothing had to be thrown away for it
  add(pcm) {
    const start = this.end;
    this.end += pcm.byteLength / 2 / SAMPLES_PER_MS;
    this.pieces.push({ start, end: this.end, pcm });
    const first = this.pieces[0].start;
    this.forget(this.end - LONGEST);
    return this.pieces[0].start === first;
  }

  // Pieces that hold anything after `time`.
  from(time) {
    let index = this.pieces.length;
    while (index > 0 && this.pieces[index - 1].end > time) index--;
    return this.pieces.slice(index);
  }

  forget(before) {
    let count = 0;
    while (count < this.pieces.length && this.pieces[count].end <= before) count++;
    if (count) this.pieces.splice(0, count);
  }
}

// How far the replay buffer was sent over one connection.
export class Sent {
  // from: where it began.
  constructor(from) {
    this.old = from;
    this.upto = from;
    this.recent = []; // {time, upto}
  }

  advance(upto) {
    this.upto = upto;
    this.recent.push({ time: performance.now(), upto });
  }

  // Sent so long ago that the server has told of any speech before it.
  get sure() {
    const then = performance.now() - SURE;
    while (this.recent.length && this.recent[0].time < then) this.old = this.recent.shift().upto;
    return this.old;
  }
}

export function base64(buffer) {
  let binary = "";
  for (const byte of new Uint8Array(buffer)) binary += String.fromCharCode(byte);
  return btoa(binary);
}
