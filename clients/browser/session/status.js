// What goes on, in one word for the page's style and a few for people.

export const WORDING = {
  starting: "waiting for the server",
  idle: "not listening",
  connecting: "connecting",
  listening: "listening",
  speech: "hearing speech",
  ending: "finishing",
  thinking: "thinking",
  answering: "answering",
  lost: "connection lost, trying again",
};

// isThere: the server has told what it serves.
export function statusOf(session, isThere) {
  if (!isThere) return "starting";
  if (session.connection.state === "lost") return "lost";
  if (session.connection.state !== "closed" && !session.ready) return "connecting";
  if (session.ending) return "ending";
  if (session.turns.isSpeaking) return "speech";
  if (session.isThinking) return "thinking";
  if (session.active) return "answering";
  return session.listening ? "listening" : "idle";
}
