// The session object of `session.update`.

// What ends a turn, by the name of the page's choice, and the silence (ms) that surely ends one.
const TURN_ENDS = {
  pause: { silence: 1200, detection: { type: "server_vad" } },
  high: { silence: 1800, detection: { type: "semantic_vad", eagerness: "high" } },
  auto: { silence: 2600, detection: { type: "semantic_vad", eagerness: "auto" } },
  low: { silence: 4600, detection: { type: "semantic_vad", eagerness: "low" } },
};

export const endingSilence = (turnEnd) => TURN_ENDS[turnEnd].silence;

// settings: {speech, chat, language, prompt, turnEnd, voices, answers} of a Session. wordTimes:
// ask for them.
export function sessionObject(settings, wordTimes) {
  const { speech, chat, language, prompt, turnEnd, voices, answers } = settings;
  const input = { format: { type: "audio/pcm", rate: 24000 } };
  if (speech) input.transcription = { model: speech, language: language || null, prompt };
  input.noise_reduction = voices === "near" ? { type: "near_field" } : null;
  input.turn_detection = { ...TURN_ENDS[turnEnd].detection };
  const session = {
    type: chat ? "realtime" : "transcription",
    audio: { input },
    lookhear: { provisional: true, words: wordTimes && Boolean(speech) },
  };
  if (chat) {
    input.turn_detection.create_response = answers;
    Object.assign(session, { model: chat, output_modalities: ["text"] });
    session.lookhear.camera = { report: true };
  }
  return session;
}
