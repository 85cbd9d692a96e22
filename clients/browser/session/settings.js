// The session object of `session.update`.

// settings: {speech, chat, language, answers} of a Session. wordTimes: ask for them.
export function sessionObject({ speech, chat, language, answers }, wordTimes) {
  const input = { format: { type: "audio/pcm", rate: 24000 } };
  if (speech) input.transcription = { model: speech, language: language || null };
  input.turn_detection = { type: "server_vad" };
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
