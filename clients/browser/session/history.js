// The conversation as this page knows it, to tell a new session of it after a reconnect.

const MOST_PICTURES = 24;
const MOST_ENTRIES = 200;

export class History {
  constructor() {
    this.entries = []; // {id, role, content, acked: the server has it, wantsAnswer}
  }

  // content: parts as in conversation items.
  ask(id, content, wantsAnswer) {
    this.entries.push({ id, role: "user", content, acked: false, wantsAnswer });
    this.trim();
  }

  addSpoken(id, text) {
    const content = [{ type: "input_text", text }];
    this.entries.push({ id, role: "user", content, acked: true });
    this.trim();
  }

  // behind: the entry that was the last one when the answer began, or undefined.
  addAnswer(id, text, behind) {
    const content = [{ type: "output_text", text }];
    const place = behind ? this.entries.indexOf(behind) + 1 : this.entries.length;
    this.entries.splice(place, 0, { id, role: "assistant", content, acked: true });
    this.trim();
  }

  get last() {
    return this.entries.at(-1);
  }

  get(id) {
    return this.entries.find((entry) => entry.id === id);
  }

  // The entry for which an answer failed: of a part the path stands in front of the reason. What is
  // too long is the last question, `behind`, since the server has left out what was before it.
  blamed(error, behind) {
    if (error?.code === "context_length_exceeded") return this.get(behind?.id);
    return this.get(/^([\w-]+)\.content\[/.exec(error?.message)?.[1]);
  }

  remove(id) {
    this.entries = this.entries.filter((entry) => entry.id !== id);
  }

  items() {
    return this.entries.map(({ id, role, content }) => ({ type: "message", id, role, content }));
  }

  trim() {
    this.entries = this.entries.slice(-MOST_ENTRIES);
    let left = MOST_PICTURES;
    for (const entry of [...this.entries].reverse())
      entry.content = entry.content.filter((part) => part.type !== "input_image" || left-- > 0);
    this.entries = this.entries.filter((entry) => entry.content.length);
  }
}
