// One transcription session over the OpenAI Realtime protocol, with a few tries when it is lost.

const RETRIED = new Set([1001, 1005, 1006, 1011, 1012, 1013]);
const TRIES = 5;
const UNSENT_PIECES = 750; // 30 s of audio kept while there is no connection

export function base64(buffer) {
  let binary = "";
  for (const byte of new Uint8Array(buffer)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

// Emits: ready {session}, state {state}, event {message}, lost {items}, failed {message, key},
// finished. `key` asks for an API key.
export class Session extends EventTarget {
  constructor({ key, language }) {
    super();
    this.key = key;
    this.language = language;
    this.unsent = [];
    this.open = new Set(); // items committed or being spoken, not completed
    this.tries = 0;
    this.ending = false;
    this.connect();
  }

  say(type, detail = {}) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  connect() {
    this.ready = false;
    this.say("state", { state: this.tries ? "lost" : "connecting" });
    const url = new URL("v1/realtime?intent=transcription", document.baseURI);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    // A browser cannot set headers on a WebSocket: the key travels as a subprotocol.
    const protocols = ["realtime"];
    if (this.key) protocols.push(`openai-insecure-api-key.${this.key}`);
    const socket = new WebSocket(url, protocols);
    socket.onmessage = (message) => {
      if (socket === this.socket) this.take(JSON.parse(message.data));
    };
    socket.onclose = (close) => {
      if (socket === this.socket) this.closed(close);
    };
    this.socket = socket;
  }

  send(event) {
    this.socket.send(JSON.stringify(event));
  }

  // pcm: ArrayBuffer of 16-bit samples at 24 kHz.
  append(pcm) {
    if (this.ending || this.ended) return;
    this.unsent.push(pcm);
    if (this.unsent.length > UNSENT_PIECES) this.unsent.shift();
    this.flush();
  }

  flush() {
    if (!this.ready) return;
    for (const pcm of this.unsent)
      this.send({ type: "input_audio_buffer.append", audio: base64(pcm) });
    this.unsent = [];
    if (this.ending) {
      this.send({ type: "input_audio_buffer.commit", event_id: "end" });
      this.send({ type: "input_audio_buffer.clear" }); // answered once the commit is dealt with
    }
  }

  // No more audio: `finished` follows when the last words are there.
  end() {
    if (this.ending) return;
    this.ending = true;
    this.flush();
  }

  stop() {
    this.ended = true;
    clearTimeout(this.retry);
    this.socket.close(1000);
  }

  take(message) {
    switch (message.type) {
      case "session.created":
        this.send({
          type: "session.update",
          session: {
            type: "transcription",
            audio: {
              input: {
                format: { type: "audio/pcm", rate: 24000 },
                transcription: this.language ? { language: this.language } : {},
                turn_detection: { type: "server_vad" },
              },
            },
            lookhear: { provisional: true },
          },
        });
        return;
      case "session.updated":
        this.ready = true;
        this.say("ready", { session: message.session });
        this.say("state", { state: "listening" });
        this.flush();
        return;
      case "error":
        if (message.error.event_id === "end") return; // nothing was left to commit
        this.problem = message.error;
        // A server error is followed by a close, whose code says whether to come back.
        if (message.error.code === "invalid_api_key") this.refused();
        else if (message.error.type !== "server_error") this.fail(message.error.message);
        return;
      case "input_audio_buffer.cleared":
        this.flushed = this.ending;
        break;
      case "input_audio_buffer.speech_started":
      case "input_audio_buffer.committed":
        this.open.add(message.item_id);
        break;
      case "conversation.item.input_audio_transcription.completed":
      case "conversation.item.input_audio_transcription.failed":
        this.open.delete(message.item_id);
        this.tries = 0;
        break;
    }
    this.say("event", { message });
    if (this.flushed && this.open.size === 0 && !this.ended) {
      this.stop();
      this.say("finished");
    }
  }

  fail(message, key = false) {
    this.stop();
    this.say("failed", { message, key });
  }

  refused() {
    this.fail(this.key ? "The server did not accept this key." : "", true);
  }

  async closed({ code, reason }) {
    if (this.ended) return;
    const why = this.problem?.message || reason || `connection closed (${code})`;
    if (!this.ready && (await this.needsKey())) {
      this.refused();
      return;
    }
    if (!RETRIED.has(code) || this.tries >= TRIES) {
      this.fail(why);
      return;
    }
    this.say("lost", { items: [...this.open], why });
    this.open.clear();
    this.say("state", { state: "lost" });
    this.ready = false;
    const wait = Math.min(8000, 500 * 2 ** this.tries++);
    this.retry = setTimeout(() => this.connect(), wait);
  }

  // A refused handshake shows as code 1006 and nothing else, so ask over HTTP.
  async needsKey() {
    try {
      const headers = this.key ? { Authorization: `Bearer ${this.key}` } : {};
      return (await fetch("v1/models", { headers })).status === 401;
    } catch {
      return false;
    }
  }
}
