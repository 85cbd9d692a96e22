// Which of the served models hear and answer, the language, and the key that the server may want.

import { $ } from "./shared/dom.js";
import { KeyWanted, able, languages, servedModels } from "./shared/models.js";
import { showNotice } from "./shared/notice.js";

const NO_CHAT =
  "No model that sees or answers is served here. Start the server with one besides, for example: " +
  "lookhear serve --model demo-qwen3-asr --model demo-qwen3-vl";

export class Chooser {
  // session: is told what was chosen. composer: is told what is seen. onChoice(): something was
  // chosen.
  constructor(session, composer, onChoice) {
    Object.assign(this, { session, composer, onChoice });
    this.cards = [];
    this.chosen = {}; // cards, by what for
    $("key-form").addEventListener("submit", (submit) => {
      submit.preventDefault();
      session.configure({ key: $("key").value.trim() });
      this.find();
    });
    for (const id of ["language", "speech-model", "chat-model"])
      $(id).addEventListener("change", () => this.choose());
  }

  askForKey() {
    $("key-form").hidden = false;
    $("key").focus();
    $("key").select();
  }

  async find() {
    const { key } = this.session.settings;
    try {
      this.cards = await servedModels(key, (text) => showNotice(text, "starting"));
    } catch (error) {
      if (!(error instanceof KeyWanted)) throw error;
      showNotice(key ? "The server did not accept this key." : "");
      this.askForKey();
      return;
    }
    showNotice("");
    $("key-form").hidden = true;
    this.show();
  }

  // A server that was started again may serve other models. -> whether it does
  async look() {
    const before = this.cards;
    let cards = before;
    try {
      cards = await servedModels(this.session.settings.key, () => {});
    } catch (error) {
      if (!(error instanceof KeyWanted)) throw error; // the connection asks for it
    }
    if (names(cards) === names(before) || this.cards !== before) return false;
    this.cards = cards;
    this.show();
    return true;
  }

  show() {
    const speech = list("speech-model", able(this.cards, "transcribe"));
    // The first that sees, if any does.
    const answering = able(this.cards, "chat");
    const seeing = able(answering, "image");
    const rest = answering.filter((card) => !seeing.includes(card));
    const talking = list("chat-model", [...seeing, ...rest]);
    $("talking").hidden = !talking;
    $("answers-label").hidden = !speech;
    document.body.classList.toggle("wide", Boolean(talking));
    this.choose();
    if (!speech) $("hint").textContent = "No model that hears is served here.";
  }

  card(id) {
    return this.cards.find((card) => card.id === id);
  }

  // Tells the session which models are chosen.
  choose() {
    const speech = this.card($("speech-model").value);
    const talking = this.card($("chat-model").value);
    const before = $("language").value;
    const options = languages(speech).map(([code, name]) => new Option(name, code));
    $("language").replaceChildren(new Option("detect language", ""), ...options);
    $("language").value = speech?.languages?.includes(before) ? before : "";
    about("speech", speech);
    about("chat", talking);
    const sees = (ability) => Boolean(talking?.abilities.includes(ability));
    this.composer.setSight({ image: sees("image"), video: sees("video") }, this.blind(talking));
    const hints = ["Ask something."];
    if (sees("image")) hints.push("Drop, paste or choose a picture, or show it the camera.");
    if (speech) hints.push("To ask aloud, tick “answer what I say”.");
    $("chat-hint").textContent = hints.join(" ");
    this.session.configure({
      speech: speech?.id ?? null,
      chat: talking?.id ?? null,
      language: $("language").value,
    });
    this.chosen = { speech, chat: talking };
    this.onChoice();
  }

  // Why a model does not see, and what to do.
  blind(talking) {
    const seeing = able(this.cards, "image").map(({ id }) => id);
    if (seeing.length) return `${talking?.id} cannot see. Choose ${seeing.join(" or ")} instead.`;
    if (!talking) return NO_CHAT;
    return `${talking.id} cannot see. Start the server with a model that can, such as demo-qwen3-vl.`;
  }
}

// What is answered by a toy is marked for as long as it is there; its name is said where there is
// nothing to choose.
function about(use, card) {
  const words = $(`${use}-model-label`).hidden && card ? [card.id] : [];
  if (card?.toy) words.push("a toy: it knows a small closed world");
  $(`${use}-name`).textContent = words.join(", ");
}

const names = (cards) => cards.map(({ id, abilities }) => `${id}: ${abilities}`).join();

// What was chosen stays so, if it is still there. -> the first of them
function list(id, cards) {
  const before = $(id).value;
  $(id).replaceChildren(...cards.map((card) => new Option(card.id, card.id)));
  if (cards.some((card) => card.id === before)) $(id).value = before;
  $(`${id}-label`).hidden = cards.length < 2;
  return cards[0];
}
