// One conversation over the OpenAI Realtime protocol: speech, questions, pictures, answers. It
// survives its connection: a new one is told what was said, and hears again what was not heard.

import { Connection } from "./connection.js";
import { Frames } from "./frames.js";
import { History } from "./history.js";
import { sessionObject } from "./settings.js";
import { Tape, base64 } from "./tape.js";

const TRANSCRIPTION = "conversation.item.input_audio_transcription.";
const OVERLAP = 1500; // ms that may hold the beginning of speech the server had not told of yet
const SILENCE = 1200; // ms that end a turn by voice
const ENGINE_LOST = new Set(["engine_died", "engine_unavailable"]);
const BUSY_SOCKET = 2_000_000; // bytes waiting: the camera's frames are left out then

// Emits: state; event {message, at} for every event of the server, `at` on the page's clock where
// it has a time; ready {session}; lost {items, why, pause}, unanswered {answer}: they will be heard
// and answered again; refused {id, error}: a question; cameraRefused {error}; trouble {error};
// overflow: speech was lost; failed {why, key}; heard: all speech is text now.
export class Session extends EventTarget {
  constructor() {
    super();
    // speech, chat: ids of models, null for none. answers: speech is answered.
    this.settings = { key: "", speech: null, chat: null, language: "", answers: true };
    this.tape = new Tape();
    this.connection = new Connection(() => this.isWanted);
    this.connection.addEventListener("message", ({ detail }) => this.take(detail.message));
    this.connection.addEventListener("lost", ({ detail }) => this.onLost(detail));
    this.connection.addEventListener("closed", () => {
      this.ready = false;
      this.changed();
    });
    this.connection.addEventListener("failed", ({ detail }) => {
      this.reset();
      this.listening = this.live = false;
      this.say("failed", detail);
    });
    this.number = 0;
    this.wordTimes = true; // asked for, until a model has none
    this.listening = this.live = false;
    this.forget();
  }

  // A new conversation. What is recorded goes on.
  forget() {
    if (this.ending) this.say("heard");
    this.history = new History();
    this.frames = new Frames();
    this.reset();
    this.connection.close();
    this.changed();
    if (this.listening || this.live) this.connect();
  }

  reset() {
    this.ready = false;
    this.open = new Map(); // items being spoken or transcribed: their start
    this.ends = new Map();
    this.ending = this.asked = this.drained = false;
    this.base = this.heardTo = this.sentTo = this.tape.end;
    this.active = null; // the id of the answer under way
    this.owed = this.requested = false;
  }

  say(type, detail = {}) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  changed() {
    this.say("state");
  }

  get isWanted() {
    const asks = this.owed || this.active || this.history.entries.some((e) => !e.acked);
    return Boolean(this.listening || this.ending || this.live || this.open.size || asks);
  }

  get isSpeaking() {
    return [...this.open.keys()].some((id) => !this.ends.has(id));
  }

  connect() {
    if (this.connection.state !== "closed") return;
    this.connection.open(this.settings.chat ? "" : "?intent=transcription", this.settings.key);
    this.changed();
  }

  configure(changes) {
    const before = this.settings;
    this.settings = { ...before, ...changes };
    if (changes.key !== undefined && changes.key !== before.key) {
      this.connection.close();
      this.ready = false;
    }
    if (this.ready) this.sendSettings();
  }

  sendSettings() {
    const session = sessionObject(this.settings, this.wordTimes);
    this.connection.send({ type: "session.update", event_id: "settings", session });
  }

  // --- speech -----------------------------------------------------------------------------------

  listen() {
    this.listening = true;
    this.ending = this.asked = this.drained = false;
    this.connect();
    this.changed();
  }

  append(pcm) {
    if (!this.listening) return;
    if (!this.tape.add(pcm) && !this.ready) this.say("overflow");
    this.flush();
  }

  // No more audio; `heard` follows when the last words are there.
  endSpeech() {
    if (!this.listening) return;
    // Only a turn that ends by voice is answered, so let it end so.
    if (this.settings.chat) this.tape.add(new ArrayBuffer(SILENCE * 24 * 2));
    this.listening = false;
    this.ending = true;
    this.flush();
    this.changed();
  }

  flush() {
    if (!this.ready) return;
    for (const { end, pcm } of this.tape.from(this.sentTo)) {
      this.connection.send({ type: "input_audio_buffer.append", audio: base64(pcm) });
      this.sentTo = end;
    }
    this.tape.forget(Math.min(this.sentTo - OVERLAP, ...this.open.values()));
    if (this.ending && !this.drained && !this.asked) {
      this.asked = true;
      if (!this.settings.chat)
        this.connection.send({ type: "input_audio_buffer.commit", event_id: "end" });
      // Answered once everything before it is dealt with.
      this.connection.send({ type: "input_audio_buffer.clear" });
    }
  }

  checkEnd() {
    if (!this.ending || !this.drained || this.open.size) return;
    this.ending = false;
    if (!this.settings.chat) {
      this.connection.close();
      this.reset();
    }
    this.say("heard");
    this.changed();
  }

  // --- questions --------------------------------------------------------------------------------

  // pictures: data URLs. wantsAnswer: false where a spoken question follows. -> its id
  ask(text, pictures, wantsAnswer = true) {
    const content = pictures.map((image_url) => ({ type: "input_image", image_url }));
    if (text) content.push({ type: "input_text", text });
    const id = `page_${++this.number}`;
    this.history.ask(id, content, wantsAnswer);
    if (this.ready) this.sendItem({ type: "message", id, role: "user", content });
    else this.connect();
    this.changed();
    return id;
  }

  sendItem(item) {
    this.connection.send({ type: "conversation.item.create", event_id: item.id, item });
  }

  // Ask for an answer, once for all questions that wait; the one under way is broken off.
  respond() {
    if (!this.ready || !this.owed || this.requested) return;
    this.requested = true;
    if (this.active) this.breakOff();
    else this.connection.send({ type: "response.create", event_id: "respond" });
  }

  cancel() {
    this.owed = false;
    if (this.active && this.ready) this.breakOff();
  }

  breakOff() {
    const type = "response.cancel";
    this.connection.send({ type, event_id: "cancel", response_id: this.active });
  }

  // --- the camera -------------------------------------------------------------------------------

  setLive(live) {
    this.live = live;
    if (live) this.connect();
  }

  // image: a data URL. -> whether it was sent
  see(image, timestamp_ms) {
    if (!this.ready || this.connection.waiting > BUSY_SOCKET) return false;
    this.connection.send(this.frames.event(image, timestamp_ms));
    return true;
  }

  // --- what the server says ---------------------------------------------------------------------

  take(message) {
    let at = null;
    const id = message.item_id;
    switch (message.type) {
      case "session.created":
        this.sendSettings();
        return;
      case "session.updated":
        if (!this.ready) this.restore();
        this.say("ready", { session: message.session });
        this.changed();
        return;
      case "error":
        this.onError(message.error);
        return;
      case "input_audio_buffer.cleared":
        this.drained = this.ending;
        break;
      case "input_audio_buffer.speech_started":
        at = this.base + message.audio_start_ms;
        this.open.set(id, at);
        break;
      case "input_audio_buffer.speech_stopped":
        at = this.base + message.audio_end_ms;
        this.ends.set(id, at);
        break;
      case "input_audio_buffer.committed":
        if (!this.open.has(id)) this.open.set(id, this.heardTo);
        if (!this.ends.has(id)) this.ends.set(id, this.sentTo);
        break;
      case TRANSCRIPTION + "completed":
        if (message.transcript.trim()) this.history.addSpoken(id, message.transcript.trim());
        this.settle(id);
        break;
      case TRANSCRIPTION + "failed":
        this.settle(id);
        break;
      case "conversation.item.added":
        this.onAdded(message.item.id);
        break;
      case "response.created":
        this.active = message.response.id;
        this.behind = this.history.last;
        this.owed = this.requested = false;
        break;
      case "response.done":
        this.onDone(message.response);
        break;
      case "lookhear.input_video_frame.kept":
        this.frames.kept(message.timestamp_ms);
        break;
    }
    this.say("event", { message, at });
    this.checkEnd();
    this.changed();
  }

  settle(id) {
    this.heardTo = Math.max(this.heardTo, this.ends.get(id) ?? 0);
    this.open.delete(id);
    this.ends.delete(id);
    this.connection.tries = 0;
  }

  onAdded(id) {
    const entry = this.history.get(id);
    if (!entry || entry.acked) return;
    entry.acked = true;
    this.owed ||= entry.wantsAnswer;
    this.respond();
  }

  onDone(response) {
    if (response.id !== this.active) return;
    this.active = null;
    this.requested = false;
    if (ENGINE_LOST.has(response.status_details?.error?.code)) {
      this.owed = true; // the connection will be lost too, then it is asked for again
      this.say("unanswered", { answer: response.id });
      return;
    }
    this.connection.tries = 0;
    for (const item of response.output) {
      const text = item.content.map((part) => part.text ?? "").join("");
      if (text) this.history.addAnswer(item.id, text, this.behind);
    }
    this.respond();
  }

  onError(error) {
    const cause = error.event_id;
    if (cause === "end" || cause === "cancel") return; // it was over already
    if (cause === "frame") this.say("cameraRefused", { error });
    else if (cause === "settings" && error.code === "invalid_words") {
      this.wordTimes = false;
      this.sendSettings();
    } else if (cause === "settings") {
      this.connection.fail(error.message);
    } else if (cause === "respond") {
      this.requested = false; // busy: it is asked for again once the other answer is there
      if (error.code === "conversation_already_has_active_response") return;
      this.owed = false;
      this.say("trouble", { error });
    } else if (this.history.get(cause)) {
      const wasNew = !this.history.get(cause).acked;
      this.history.remove(cause);
      if (wasNew) this.say("refused", { id: cause, error });
    } else if (error.type !== "server_error") {
      this.say("trouble", { error }); // after a server error comes a close, which tells more
    }
    this.changed();
  }

  // --- from one connection to the next ----------------------------------------------------------

  onLost({ why, pause }) {
    const items = [...this.open.keys()];
    this.ready = this.requested = this.asked = this.drained = false;
    // From where the server has to hear again: the first turn without its text, else a little.
    const recent = Math.max(this.heardTo, this.sentTo - OVERLAP);
    this.sentTo = Math.min(this.sentTo, recent, ...this.open.values());
    this.open.clear();
    this.ends.clear();
    if (this.active) this.say("unanswered", { answer: this.active });
    this.owed ||= this.active !== null;
    this.active = null;
    this.say("lost", { items, why, pause });
    this.changed();
  }

  restore() {
    this.ready = true;
    this.asked = false;
    const first = this.tape.from(this.sentTo)[0];
    this.base = this.sentTo = first ? first.start : this.tape.end;
    for (const item of this.history.items()) this.sendItem(item);
    for (const event of this.frames.again()) this.connection.send(event);
    this.respond();
    this.flush();
  }
}
