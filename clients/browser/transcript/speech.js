// The committed text of one turn. A word whose time is known is an element of its own, so that it
// can be lit while it is spoken, and clicked.

import { make } from "../shared/dom.js";

export class Speech {
  constructor() {
    this.element = make("span", "committed");
    this.loose = new Text(); // what no word was found in yet
    this.element.append(this.loose);
    this.words = []; // {word, start, end, element or null}, milliseconds on the page's clock
  }

  add(delta) {
    this.loose.data += delta;
  }

  // words: {word, start, end} in the order of the text that was added.
  time(words) {
    for (const word of words) {
      const text = word.word.trim();
      const at = this.loose.data.indexOf(text);
      if (!text || at < 0) {
        this.words.push({ ...word, element: null });
        continue;
      }
      const rest = this.loose.splitText(at);
      rest.data = rest.data.slice(text.length);
      const element = make("span", "word", text);
      rest.before(element);
      this.loose = rest;
      this.words.push({ ...word, element });
    }
  }
}
