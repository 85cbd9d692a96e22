// A WebSocket to this server, opened again with growing pauses when it is lost.

import { closedProblem } from "../shared/problems.js";

const RETRIED = new Set([1001, 1005, 1006, 1011, 1012, 1013]);
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8000;

// Emits: wire {event, isSent} for all that goes over it; message {message}; lost {why, pause} before
// another try, unless `wanted()` is false, then closed; failed {why, key} if trying again is of no
// use (key: the server wants an API key).
export class Connection extends EventTarget {
  constructor(wanted) {
    super();
    this.wanted = wanted;
    this.state = "closed"; // or "connecting", "open" (the server has spoken), "lost"
    this.tries = 0;
    globalThis.addEventListener?.("online", () => {
      if (this.state === "lost") this.connect();
    });
  }

  say(type, detail = {}) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  // query: of the URL. key: an API key, or "".
  open(query, key) {
    this.close();
    this.query = query;
    this.key = key;
    this.tries = 0;
    this.connect();
  }

  connect() {
    clearTimeout(this.retry);
    this.state = this.tries ? "lost" : "connecting";
    this.problem = null;
    const url = new URL(`v1/realtime${this.query}`, document.baseURI);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    // A browser cannot set headers on a WebSocket: the key travels as a subprotocol.
    const protocols = ["realtime"];
    if (this.key) protocols.push(`openai-insecure-api-key.${this.key}`);
    this.socket?.close();
    const socket = new WebSocket(url, protocols);
    socket.onmessage = ({ data }) => {
      if (socket === this.socket) this.take(JSON.parse(data));
    };
    socket.onclose = (close) => {
      if (socket === this.socket) this.closed(close);
    };
    this.socket = socket;
  }

  take(message) {
    this.state = "open";
    this.say("wire", { event: message, isSent: false });
    if (message.type === "error") {
      this.problem = message.error;
      if (message.error.code === "invalid_api_key") {
        this.refused();
        return;
      }
    }
    this.say("message", { message });
  }

  // One that is closing takes nothing more: what matters is said again on the next.
  send(event) {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    this.socket.send(JSON.stringify(event));
    this.say("wire", { event, isSent: true });
  }

  // Bytes that wait to be sent.
  get waiting() {
    return this.socket?.bufferedAmount ?? 0;
  }

  close() {
    clearTimeout(this.retry);
    const socket = this.socket;
    this.socket = null;
    this.state = "closed";
    socket?.close(1000);
  }

  fail(why, key = false) {
    this.close();
    this.say("failed", { why, key });
  }

  refused() {
    this.fail(this.key ? "The server did not accept this key." : "", true);
  }

  async closed({ code, reason }) {
    const wasOpen = this.state === "open";
    const mine = this.socket;
    const why = closedProblem(code, reason, this.problem);
    this.state = "lost";
    if (!wasOpen && (await this.needsKey())) {
      if (this.socket === mine) this.refused();
      return;
    }
    if (this.socket !== mine) return; // closed or opened anew meanwhile
    if (!RETRIED.has(code)) {
      this.fail(why);
      return;
    }
    if (!this.wanted()) {
      this.close();
      this.say("closed");
      return;
    }
    const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** this.tries++);
    this.retry = setTimeout(() => this.connect(), pause * (0.8 + 0.4 * Math.random()));
    this.say("lost", { why, pause });
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
