// The conversation beside the transcript: questions with their pictures, answers as they stream.

import { announce, following, make } from "../shared/dom.js";
import { copied } from "../media/pictures.js";
import { serverProblem } from "../shared/problems.js";

const STOPPED = { client_cancelled: "stopped", turn_detected: "stopped: you spoke" };

export class Chat {
  // box: its element. hint: shown while there is nothing.
  constructor(box, hint) {
    this.box = box;
    this.hint = hint;
    this.questions = new Map(); // elements by item id
    this.answers = new Map(); // {element, text} of answers under way, by response id
  }

  clear() {
    this.box.querySelectorAll(".message").forEach((element) => element.remove());
    this.questions.clear();
    this.answers.clear();
    this.hint.hidden = false;
  }

  message(kind, ...parts) {
    this.hint.hidden = true;
    this.box.querySelector(".sample")?.remove();
    const who = { asked: "You: ", answer: "Answer: " }[kind.split(" ")[0]];
    if (who) parts.unshift(make("span", "unseen", who));
    const element = make("div", `message ${kind}`, {}, ...parts);
    following(this.box, () => this.box.append(element));
    return element;
  }

  // pictures: of pictures.js. isSpoken: it is in the transcript too.
  ask(id, text, pictures, isSpoken = false) {
    const parts = [];
    if (pictures.length) {
      const thumbnails = pictures.map(({ thumbnail }) => copied(thumbnail));
      parts.push(make("div", "thumbnails", {}, ...thumbnails));
    }
    if (text) parts.push(make("p", "", text));
    this.questions.set(id, this.message(isSpoken ? "asked spoken" : "asked", ...parts));
    this.box.scrollTop = this.box.scrollHeight;
  }

  // A picture of what the live camera or a video was seen to show, in a row of them.
  see(thumbnail) {
    let row = [...this.box.querySelectorAll(".message")].at(-1);
    if (!row?.classList.contains("seen"))
      row = this.message("seen", make("div", "thumbnails"), make("p", "note"));
    const thumbnails = row.querySelector(".thumbnails");
    following(this.box, () => {
      thumbnails.append(thumbnail);
      while (thumbnails.childElementCount > 6) thumbnails.firstElementChild.remove();
      row.number = (row.number ?? 0) + 1;
      row.querySelector(".note").textContent =
        `seen: ${row.number} ${row.number === 1 ? "picture" : "pictures"}`;
    });
  }

  refuse(id, error) {
    const element = this.questions.get(id);
    element?.classList.add("failed");
    element?.append(make("p", "note", serverProblem(error)));
  }

  // The answer will be given again.
  lose(id) {
    this.answers.get(id)?.element.remove();
    this.answers.delete(id);
  }

  take(message) {
    switch (message.type) {
      case "response.created": {
        const element = this.message("answer waiting", make("p"));
        this.answers.set(message.response.id, { element, text: "" });
        break;
      }
      case "response.output_text.delta": {
        const answer = this.answers.get(message.response_id);
        if (!answer) return;
        answer.text += message.delta;
        answer.element.classList.remove("waiting");
        following(this.box, () => {
          answer.element.querySelector("p").textContent = answer.text;
        });
        break;
      }
      case "response.done":
        this.done(message.response);
        break;
    }
  }

  done({ id, status, status_details }) {
    const answer = this.answers.get(id);
    if (!answer) return;
    this.answers.delete(id);
    const { element, text } = answer;
    element.classList.remove("waiting");
    let note = "";
    if (status === "cancelled") note = STOPPED[status_details?.reason] ?? "stopped";
    if (status === "incomplete") note = "cut off: it became too long";
    if (status === "failed") {
      note = serverProblem(status_details?.error ?? { message: "There was no answer." });
      element.classList.add("failed");
    }
    if (!text && status === "cancelled") {
      element.remove();
      return;
    }
    if (!text && status === "completed") note = "(no words)";
    if (note) following(this.box, () => element.append(make("p", "note", note)));
    announce(note && !text ? note : text);
  }
}
