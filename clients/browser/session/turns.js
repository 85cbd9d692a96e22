// Turns of speech between their first sound and their text. Times are of the page's clock.

export class Turns {
  // heardTo: everything before it is text.
  constructor(heardTo) {
    this.heardTo = heardTo;
    this.starts = new Map(); // by item id
    this.ends = new Map();
  }

  get ids() {
    return [...this.starts.keys()];
  }

  get isEmpty() {
    return this.starts.size === 0;
  }

  get isSpeaking() {
    return this.ids.some((id) => !this.ends.has(id));
  }

  // Where the first of them begins; Infinity if there is none.
  get start() {
    return Math.min(...this.starts.values());
  }

  // upto: what the server has heard, for turns that it did not say the times of.
  commit(id, upto) {
    if (!this.starts.has(id)) this.starts.set(id, this.heardTo);
    if (!this.ends.has(id)) this.ends.set(id, upto);
  }

  // Its text is there, or will never be.
  settle(id) {
    this.heardTo = Math.max(this.heardTo, this.ends.get(id) ?? 0);
    this.starts.delete(id);
    this.ends.delete(id);
  }

  clear() {
    this.starts.clear();
    this.ends.clear();
  }
}
