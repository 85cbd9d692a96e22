// Frames of the live camera: those that wait for a server, those on their way to it, and those that
// it kept.

const MOST = 16; // that are kept, and that wait; a new session is told of both
// That are on their way: of those in which nothing new is seen nobody is told.
const MOST_SENT = 32;

export class Frames {
  constructor() {
    this.sent = new Map(); // images by timestamp
    this.held = []; // {image, timestamp_ms}
    this.waiting = []; // the same
  }

  // Seen while there is no session to show it to.
  wait(image, timestamp_ms) {
    this.waiting = [...this.waiting, { image, timestamp_ms }].slice(-MOST);
  }

  // The event that shows a frame. image: a data URL.
  event(image, timestamp_ms) {
    this.sent.set(timestamp_ms, image);
    if (this.sent.size > MOST_SENT) this.sent.delete(this.sent.keys().next().value);
    const type = "lookhear.input_video_frame.append";
    return { type, event_id: "frame", image, timestamp_ms };
  }

  // The server said that it kept the frame of this time, so it did not keep the ones before.
  kept(timestamp_ms) {
    const image = this.sent.get(timestamp_ms);
    for (const time of [...this.sent.keys()]) if (time <= timestamp_ms) this.sent.delete(time);
    if (image) this.held = [...this.held, { image, timestamp_ms }].slice(-MOST);
  }

  // Events that show a new session what was kept, and what was seen meanwhile.
  again() {
    const seen = [...this.held, ...this.waiting];
    this.held = [];
    this.waiting = [];
    this.sent.clear();
    return seen.map(({ image, timestamp_ms }) => this.event(image, timestamp_ms));
  }
}
