// Frames of the live camera: those on their way, and those that the server kept.

const MOST = 16; // told to a new session after a reconnect

export class Frames {
  constructor() {
    this.sent = new Map(); // images by timestamp
    this.held = []; // {image, timestamp_ms}
  }

  // The event that shows a frame. image: a data URL.
  event(image, timestamp_ms) {
    this.sent.set(timestamp_ms, image);
    const type = "lookhear.input_video_frame.append";
    return { type, event_id: "frame", image, timestamp_ms };
  }

  // The server said that it kept the frame of this time, so it did not keep the ones before.
  kept(timestamp_ms) {
    const image = this.sent.get(timestamp_ms);
    for (const time of [...this.sent.keys()]) if (time <= timestamp_ms) this.sent.delete(time);
    if (image) this.held = [...this.held, { image, timestamp_ms }].slice(-MOST);
  }

  // Events that show a new session what was kept.
  again() {
    const held = this.held;
    this.held = [];
    this.sent.clear();
    return held.map(({ image, timestamp_ms }) => this.event(image, timestamp_ms));
  }
}
