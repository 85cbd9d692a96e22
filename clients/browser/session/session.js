// One conversation over the OpenAI Realtime protocol: speech, questions, pictures, answers. It
// survives its connection: a new one is told what was said, and hears again what was not heard.

import { Connection } from "./connection.js";
import { Frames } from "./frames.js";
import { History } from "./history.js";
import { endingSilence, sessionObject } from "./settings.js";
import { ReplayBuffer, Sent, base64 } from "./replay.js";
import { Turns } from "./turns.js";

const TRANSCRIPTION = "conversation.item.input_audio_transcription.";
const OVER = new Set(["session_idle", "session_expired"]); // who wants one begins another
// A session has no room for more, while older things are forgotten here.
const PICTURES = ["too_many_pictures", "pictures_too_large"];
const FULL = new Set([...PICTURES, "too_many_items", "conversation_too_large"]);
const ENGINE_LOST = new Set(["engine_died", "engine_unavailable"]);
const BUSY_SOCKET = 2_000_000; // bytes waiting: the camera's frames are left out then

// Emits: state; event {message, at} for every event of the server, `at` on the page's clock where
// it has a time; ready {session}; lost {why, pause}; unheard {items}, unanswered {answer}: they
// will be heard and answered again; refused {id, error}: a question; unserved {error}: what it is
// set to; cameraRefused, trouble {error}; overflow: speech was lost; failed {why, key}.
export class Session extends EventTarget {
  constructor() {
    super();
    // speech, chat: ids of models, null for none. answers: speech is answered. turnEnd: of
    // settings.js. voices: "all", or "near" the microphone.
    this.settings = { key: "", speech: null, chat: null, language: "", prompt: "" };
    Object.assign(this.settings, { turnEnd: "pause", voices: "all", answers: false });
    this.replay = new ReplayBuffer();
    this.connection = new Connection(() => this.isWanted);
    this.connection.addEventListener("message", ({ detail }) => this.take(detail.message));
    this.connection.addEventListener("lost", ({ detail }) => this.onLost(detail));
    this.connection.addEventListener("closed", () => {
      this.ready = false; // and nothing is left to be heard
      this.hearFrom(this.replay.end);
      this.changed();
    });
    this.connection.addEventListener("failed", ({ detail }) => {
      this.reset();
      this.listening = this.live = false;
      this.say("failed", detail);
    });
    this.number = 0;
    this.full = null; // the question for which the server had no room
    this.wordTimes = true; // asked for, until a model has none
    this.listening = this.live = this.ending = false;
    this.history = new History();
    this.frames = new Frames();
    this.reset();
  }

  // A new conversation. What is recorded goes on.
  forget() {
    this.history = new History();
    this.frames = new Frames();
    this.active = null;
    this.owed = false;
    this.renew();
  }

  // A new connection: its session is told of what is kept here, and of nothing else.
  renew() {
    const { ending, hearAgain, active } = this;
    const owed = this.owed || active !== null;
    this.say("unheard", { items: this.turns.ids });
    if (active) this.say("unanswered", { answer: active });
    this.connection.close();
    this.reset();
    this.hearFrom(hearAgain);
    Object.assign(this, { ending, owed });
    this.changed();
    if (this.isWanted) this.connect();
  }

  reset() {
    this.ready = false;
    this.turns = new Turns(this.replay.end);
    this.ending = this.asked = this.drained = false;
    this.hearFrom(this.replay.end);
    this.active = null; // the id of the answer under way
    this.owed = this.requested = this.hasWords = false;
  }

  // An answer is due, and none of it is there.
  get isThinking() {
    return this.active ? !this.hasWords : this.ready && (this.owed || this.requested);
  }

  say(type, detail = {}) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  changed() {
    this.say("state");
  }

  get isWanted() {
    const asks = this.owed || this.active || this.history.entries.some((e) => !e.acked);
    return Boolean(this.listening || this.ending || this.live || !this.turns.isEmpty || asks);
  }

  connect() {
    if (this.connection.state !== "closed") return;
    this.connection.open(this.settings.chat ? "" : "?intent=transcription", this.settings.key);
    this.changed();
  }

  configure(changes) {
    const { key, speech } = this.settings;
    Object.assign(this.settings, changes);
    if (this.settings.speech !== speech) this.wordTimes = true;
    if (this.settings.key !== key) {
      this.connection.close();
      this.ready = false;
    }
    if (!this.settings.chat) this.owed = false; // nobody is there who could answer
    // What was asked for at its beginning may have been refused.
    if (this.connection.state === "open") this.sendSettings();
    else if (this.isWanted) this.connect();
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
    if (!this.replay.add(pcm) && !this.ready) this.say("overflow");
    this.flush();
  }

  // No more audio; `ending` until the last words are there.
  endSpeech() {
    if (!this.listening) return;
    // Only a turn that ends by voice is answered, so let it end so.
    if (this.settings.chat) {
      const silence = endingSilence(this.settings.turnEnd);
      this.replay.add(new ArrayBuffer(silence * 24 * 2));
    }
    this.listening = false;
    this.ending = true;
    this.flush();
    this.changed();
  }

  flush() {
    if (!this.ready) return;
    for (const { end, pcm } of this.replay.from(this.sent.upto)) {
      this.connection.send({ type: "input_audio_buffer.append", audio: base64(pcm) });
      this.sent.advance(end);
    }
    this.replay.forget(this.hearAgain);
    if (this.ending && !this.drained && !this.asked) {
      this.asked = true;
      if (!this.settings.chat)
        this.connection.send({ type: "input_audio_buffer.commit", event_id: "end" });
      // Answered once everything before it is dealt with.
      this.connection.send({ type: "input_audio_buffer.clear" });
    }
  }

  checkEnd() {
    if (!this.ending || !this.drained || !this.turns.isEmpty) return;
    this.ending = false;
    if (!this.settings.chat) {
      this.connection.close();
      this.reset();
    }
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
    const cancel = { type: "response.cancel", response_id: this.active };
    this.connection.send({ ...cancel, event_id: "cancel" });
  }

  // --- the camera -------------------------------------------------------------------------------

  setLive(live) {
    this.live = live;
    if (live) this.connect();
  }

  // image: a data URL. -> whether the server is shown it, now or when there is one
  see(image, timestamp_ms) {
    if (!this.ready) this.frames.wait(image, timestamp_ms);
    else if (this.connection.waiting > BUSY_SOCKET) return false;
    else this.connection.send(this.frames.event(image, timestamp_ms));
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
        this.turns.starts.set(id, at);
        break;
      case "input_audio_buffer.speech_stopped":
        at = this.base + message.audio_end_ms;
        this.turns.ends.set(id, at);
        break;
      case "input_audio_buffer.committed":
        this.turns.commit(id, this.sent.upto);
        break;
      case TRANSCRIPTION + "completed":
        if (message.transcript.trim()) this.history.addSpoken(id, message.transcript.trim());
        this.turns.settle(id);
        this.connection.tries = 0;
        break;
      case TRANSCRIPTION + "failed":
        this.turns.settle(id);
        break;
      case "conversation.item.added":
        this.onAdded(message.item.id);
        break;
      case "response.created":
        this.active = message.response.id;
        this.behind = this.history.last;
        this.owed = this.requested = this.hasWords = false;
        break;
      case "response.output_text.delta":
        this.hasWords = true;
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
    this.takeBack(this.history.blamed(response.status_details?.error, this.behind));
    for (const item of response.output) {
      const text = item.content.map((part) => part.text ?? "").join("");
      if (text) this.history.addAnswer(item.id, text, this.behind);
    }
    this.respond();
  }

  // What a model cannot take of a question would fail every later answer, too.
  takeBack(entry) {
    if (entry?.role !== "user") return;
    this.history.remove(entry.id);
    this.connection.send({ type: "conversation.item.delete", item_id: entry.id });
  }

  onError(error) {
    const cause = error.event_id;
    if (cause === "end" || cause === "cancel") return; // it was over already
    if (cause === "frame") this.say("cameraRefused", { error });
    else if (cause === "settings" && error.code === "invalid_words") {
      this.wordTimes = false;
      this.sendSettings();
    } else if (cause === "settings") this.say("unserved", { error });
    else if (cause === "respond") {
      this.requested = false; // busy: it is asked for again once the other answer is there
      if (error.code === "conversation_already_has_active_response") return;
      this.owed = false;
      this.say("trouble", { error });
    } else if (this.history.get(cause)) {
      const wasNew = !this.history.get(cause).acked;
      if (wasNew && FULL.has(error.code) && this.full !== cause) {
        this.full = cause; // once: the server may take fewer than are kept here
        this.renew();
        return;
      }
      this.history.remove(cause);
      if (wasNew) this.say("refused", { id: cause, error });
    } else if (error.type !== "server_error" && !OVER.has(error.code)) {
      this.say("trouble", { error }); // after a server error comes a close, which tells more
    }
    this.changed();
  }

  // --- from one connection to the next ----------------------------------------------------------

  // From where a new session has to hear: the first turn without its text, or what the server may
  // not have told of yet.
  get hearAgain() {
    return Math.min(Math.max(this.turns.heardTo, this.sent.sure), this.turns.start);
  }

  hearFrom(time) {
    const first = this.replay.from(time)[0];
    this.base = first ? first.start : this.replay.end; // where the server's clock begins
    this.sent = new Sent(this.base);
  }

  onLost({ why, pause }) {
    this.ready = this.requested = this.asked = this.drained = false;
    this.hearFrom(this.hearAgain);
    this.say("unheard", { items: this.turns.ids });
    this.turns.clear();
    if (this.active) this.say("unanswered", { answer: this.active });
    this.owed ||= this.active !== null;
    this.active = null;
    this.say("lost", { why, pause });
    this.changed();
  }

  restore() {
    this.ready = true;
    this.hearFrom(this.base); // the oldest may have had to go
    if (this.settings.chat) for (const item of this.history.items()) this.sendItem(item);
    for (const event of this.frames.again()) this.connection.send(event);
    this.respond();
    this.flush();
  }
}
