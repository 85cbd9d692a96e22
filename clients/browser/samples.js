// What a newcomer may try first: a recording, of a person or as a toy understands it, and where the
// packaged toy is served a picture that it understands. Not seen once there is text.

import { $ } from "./shared/dom.js";
import { pictureOfAddress } from "./media/pictures.js";

const QUESTION = "What do you see?";
const PERSON = "kennedy.opus";
const SYNTHESISED = "hello.opus"; // a toy cannot hear people
const NEXT = "Ask more, for example: Where is the star?";

export class Samples {
  #recording = PERSON;

  // onRecording(file); onQuestion(text, pictures); onProblem(text).
  constructor({ onRecording, onQuestion, onProblem }) {
    onPress("play-sample", onProblem, async () => {
      const file = await recording(this.#recording);
      $("hearing-sample")?.remove();
      $("toggle").focus(); // it stops what is played
      onRecording(file);
    });
    onPress("ask-sample", onProblem, async () => {
      const name = "A red circle, a yellow star and a blue triangle";
      const picture = await pictureOfAddress("scene.svg", name);
      $("seeing-sample")?.remove();
      suggest(NEXT);
      // Where a finger points a keyboard would cover the answer.
      $(matchMedia("(pointer: coarse)").matches ? "chat" : "question").focus();
      onQuestion(QUESTION, [picture]);
    });
  }

  // speech, chat: cards of the chosen models, or undefined.
  offer({ speech, chat }) {
    this.#recording = speech?.toy ? SYNTHESISED : PERSON;
    // What is not there was used.
    if ($("hearing-sample")) {
      $("hearing-sample").hidden = !speech;
      $("toy-note").hidden = !speech?.toy;
      $("person-note").hidden = Boolean(speech?.toy);
    }
    if ($("seeing-sample")) $("seeing-sample").hidden = !chat?.toy;
  }
}

// act: fails with an Error that says why.
function onPress(id, onProblem, act) {
  const button = $(id);
  button.addEventListener("click", async () => {
    button.disabled = true; // one press is enough
    try {
      await act();
    } catch (error) {
      button.disabled = false;
      button.focus();
      onProblem(error.message);
    }
  });
}

async function recording(name) {
  const answer = await fetch(`recordings/${name}`).catch(() => null);
  if (!answer) throw new Error("The server is away.");
  if (!answer.ok) throw new Error("This server was installed without the sample recording.");
  return new File([await answer.blob()], "sample recording", { type: "audio/ogg" });
}

// What to ask next, until something else is typed or begun.
function suggest(text) {
  const question = $("question");
  const before = question.placeholder;
  question.placeholder = text;
  const end = () => (question.placeholder = before);
  question.addEventListener("input", end, { once: true });
  $("new-chat").addEventListener("click", end, { once: true });
}
