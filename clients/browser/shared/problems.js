// What went wrong, in words that say what to do.

// An error of getUserMedia. name: "microphone" or "camera".
export function deviceProblem(error, name) {
  switch (error.name) {
    case "NotAllowedError":
      return (
        `The ${name} was not allowed. Allow it for this page in the browser's address bar, ` +
        "then try again."
      );
    case "NotFoundError":
    case "OverconstrainedError":
      return `No ${name} was found. Plug one in, or use a file instead.`;
    case "NotReadableError":
    case "AbortError":
      return (
        `The ${name} is there but does not start: another app may be using it. ` +
        "Close that and try again."
      );
    case "SecurityError":
      return `The browser does not allow this page to use the ${name}.`;
    default:
      return error.message || String(error);
  }
}

// Raises an Error where the browser has no devices to give.
export function checkDevices(name) {
  if (navigator.mediaDevices?.getUserMedia) return;
  throw new Error(
    `The browser gives the ${name} only to https pages and to localhost: ` +
      "open this page over https, or on the machine that serves it.",
  );
}

// What the server says is the end of a line for programs.
const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.?$/, ".")}`;

const FULL = "The server has as many speakers as it can follow";

// Why a connection ended. problem: the server's last error event, if there was one.
export function closedProblem(code, reason, problem) {
  if (problem?.code === "engine_not_ready") return "The model is still being loaded.";
  if (problem?.code === "engine_died" || problem?.code === "engine_unavailable")
    return "The model stopped and is being started again.";
  if (problem?.code === "too_many_sessions")
    return "The server has as many sessions as it takes at once.";
  if (problem?.code === "too_many_speakers") return `${FULL}.`;
  if (problem?.code === "going_away") return "The server is shutting down.";
  if (problem?.code === "session_expired") return "The session has lasted as long as one may.";
  if (problem?.code === "session_idle") return "Nothing was said in the session for too long.";
  if (problem) return sentence(problem.message);
  if (code === 1013) return "The server is busy.";
  if (code === 1001) return "The server closed the session.";
  if (code === 1006 || code === 1005) return "The server is away.";
  return reason || `The server closed the connection (${code}).`;
}

// Without the path of the field in front, which only programs know.
const unnamed = (message) => message.replace(/^[\w.[\]-]+: /, "");

// An error event or the error of a failed answer.
export function serverProblem({ code, message }) {
  switch (code) {
    case "unsupported_image":
    case "unsupported_video":
      return "This model cannot see. Choose one that can, if there is one.";
    case "unsupported_audio":
      return "No served model transcribes.";
    case "too_many_pictures":
    case "pictures_too_large":
      return "The server holds no more pictures of this conversation. Begin a new chat.";
    case "context_length_exceeded":
      return "This is more than the model can read at once, so it is left out. Send less.";
    case "conversation_too_large":
    case "too_many_items":
      return "This conversation has become too long. Begin a new chat.";
    case "invalid_image":
      return `The server refused this picture: ${unnamed(message)}.`;
    case "too_many_speakers":
      return `${FULL}, so this is not heard. Try again in a moment.`;
    case "transcription_failed":
      return "The speech before it could not be transcribed, so there is no answer.";
    default:
      return message;
  }
}
