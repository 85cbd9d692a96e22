// The page: microphone, files, questions and pictures -> Session -> text. No framework, nothing
// from elsewhere.

import { microphone, playFile } from "./audio.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { $, keepEnd } from "./dom.js";
import { Latency } from "./latency.js";
import { KeyWanted, able, languages, servedModels } from "./models.js";
import { deviceProblem, serverProblem } from "./problems.js";
import { Session } from "./session.js";
import { plainText, srt, vtt } from "./subtitles.js";
import { Transcript } from "./transcript.js";

const TRANSCRIBED = "conversation.item.input_audio_transcription.completed";
const KEPT = "lookhear.input_video_frame.kept";
const WORDING = {
  starting: "waiting for the server",
  idle: "not listening",
  connecting: "connecting",
  listening: "listening",
  speech: "hearing speech",
  ending: "finishing",
  answering: "answering",
  lost: "connection lost, trying again",
};
const NO_CHAT =
  "No model that sees or answers is served here. Start the server with one besides, for example: " +
  "lookhear serve --model demo-qwen3-asr --model demo-qwen3-vl";

let cards = [];
let audio = null; // {stop} of what is heard
let source = null; // "microphone", "file", or null
const frames = new Map(); // thumbnails of sent frames, by timestamp
const session = new Session();
for (const id of ["transcript", "chat"]) keepEnd($(id));
const transcript = new Transcript($("transcript"), $("hint"), showDownloads);
const chat = new Chat($("chat"), $("chat-hint"));
const latency = new Latency($("hearing-time"), $("answering-time"));
const composer = new Composer({
  onAsk(text, pictures) {
    showNotice("");
    const urls = pictures.map(({ url }) => url);
    chat.ask(session.ask(text, urls), text, pictures);
  },
  onAttach() {
    if (source === "microphone") showToSpeech();
  },
  onFrame(picture, timestamp) {
    if (session.see(picture.url, timestamp)) frames.set(timestamp, picture.thumbnail);
  },
  onLive: (live) => session.setLive(live),
  onProblem: showNotice,
});

// While the microphone is on pictures go ahead of the question, which may be spoken or written.
function showToSpeech() {
  if (!session.settings.chat || !session.settings.answers) return;
  const pictures = composer.handOver();
  if (!pictures.length) return;
  const urls = pictures.map(({ url }) => url);
  chat.ask(session.ask("", urls, false), "", pictures);
}

// --- what is shown ------------------------------------------------------------------------------

// about: "connection" for what is over once there is one.
function showNotice(text, about = "") {
  $("notice").dataset.about = about;
  $("notice-text").textContent = text;
  $("notice").hidden = !text;
}

function state() {
  if (!cards.length) return "starting";
  if (session.connection.state === "lost") return "lost";
  if (session.connection.state !== "closed" && !session.ready) return "connecting";
  if (session.ending) return "ending";
  if (session.turns.isSpeaking) return "speech";
  if (session.active) return "answering";
  return session.listening ? "listening" : "idle";
}

function showState() {
  const now = state();
  if ($("state").dataset.state !== now) {
    $("state").dataset.state = now;
    $("state").textContent = WORDING[now];
  }
  $("toggle").textContent = source ? "Stop" : "Start listening";
  $("toggle").disabled = !session.settings.speech || session.ending;
  $("open-file").disabled = !cards.length || session.ending;
  $("cancel").hidden = !session.active;
}

function showDownloads() {
  const isEmpty = transcript.turns.length === 0;
  for (const id of ["copy", "txt", "srt", "vtt"]) $(id).disabled = isEmpty;
  $("clear").disabled = isEmpty;
}

// --- the session --------------------------------------------------------------------------------

session.addEventListener("state", showState);
session.addEventListener("ready", () => {
  if ($("notice").dataset.about === "connection") showNotice("");
  $("key-form").hidden = true;
});
session.addEventListener("event", ({ detail: { message, at } }) => {
  transcript.take(message, at);
  latency.take(message, at);
  if (!session.settings.chat) return;
  if (message.type === TRANSCRIBED && session.settings.answers) {
    const text = message.transcript.trim();
    if (text) chat.ask(message.item_id, text, [], true);
  } else if (message.type === KEPT) {
    const thumbnail = frames.get(message.timestamp_ms);
    if (thumbnail) chat.see(thumbnail);
    for (const time of [...frames.keys()]) if (time <= message.timestamp_ms) frames.delete(time);
  } else chat.take(message);
});
session.addEventListener("lost", ({ detail: { why, pause } }) => {
  const seconds = Math.max(1, Math.round(pause / 1000));
  const kept = source ? " What is said meanwhile is kept." : "";
  showNotice(`${why} Trying again in ${seconds} s.${kept}`, "connection");
});
session.addEventListener("unheard", ({ detail }) => transcript.lose(detail.items));
session.addEventListener("unanswered", ({ detail }) => chat.lose(detail.answer));
session.addEventListener("overflow", () =>
  showNotice("The server has been away for more than three minutes: older speech is lost."),
);
session.addEventListener("refused", ({ detail }) => chat.refuse(detail.id, detail.error));
session.addEventListener("trouble", ({ detail }) => showNotice(serverProblem(detail.error)));
session.addEventListener("cameraRefused", ({ detail }) => {
  composer.setLive(false);
  showNotice(serverProblem(detail.error));
});
session.addEventListener("failed", ({ detail }) => {
  showNotice(detail.why);
  if (detail.key) askForKey();
  transcript.giveUp();
  composer.setLive(false);
  stopAudio();
});

// --- sound --------------------------------------------------------------------------------------

async function start(kind, open) {
  await stopAudio();
  showNotice("");
  source = kind;
  session.configure({ answers: kind === "microphone" && $("answers").checked });
  session.listen();
  if (kind === "microphone") showToSpeech();
  try {
    const opened = await open((pcm, level) => {
      $("level").value = Math.min(1, level * 4);
      session.append(pcm);
      latency.recorded(session.tape.end);
    });
    if (source === kind && session.listening) audio = opened;
    else await opened.stop();
  } catch (error) {
    showNotice(deviceProblem(error, "microphone"));
    await end();
  }
}

async function stopAudio() {
  const opened = audio;
  audio = source = null;
  $("level").value = 0;
  showState();
  await opened?.stop();
}

// What was said last is still transcribed.
async function end() {
  session.endSpeech();
  await stopAudio();
}

const listen = () =>
  start("microphone", (onPiece) =>
    microphone(onPiece, () => {
      end();
      showNotice("The microphone was unplugged or taken away.");
    }),
  );

function openFiles(files) {
  const pictures = files.filter(({ type }) => type.startsWith("image/"));
  const [sound] = files.filter(({ type }) => !type.startsWith("image/"));
  if (pictures.length) composer.attachFiles(pictures);
  if (!sound) return;
  if (session.settings.speech) start("file", (onPiece) => playFile(sound, onPiece, end));
  else showNotice("No model that hears is served here.");
}

// --- models and the key -------------------------------------------------------------------------

function askForKey() {
  $("key-form").hidden = false;
  $("key").focus();
}

async function findModels() {
  try {
    cards = await servedModels(session.settings.key, (text) => showNotice(text));
  } catch (error) {
    if (!(error instanceof KeyWanted)) throw error;
    showNotice(session.settings.key ? "The server did not accept this key." : "");
    askForKey();
    return;
  }
  showNotice("");
  $("key-form").hidden = true;
  const speech = listModels("speech-model", able(cards, "transcribe"));
  // The first that sees, if any does.
  const answering = able(cards, "chat");
  const seeing = able(answering, "image");
  const rest = answering.filter((card) => !seeing.includes(card));
  const talking = listModels("chat-model", [...seeing, ...rest]);
  $("talking").hidden = !talking;
  $("answers-label").hidden = !speech;
  document.body.classList.toggle("wide", Boolean(talking));
  choose();
  if (!speech) $("hint").textContent = "No model that hears is served here.";
}

function listModels(id, some) {
  $(id).replaceChildren(...some.map((card) => new Option(card.id, card.id)));
  $(`${id}-label`).hidden = some.length < 2;
  return some[0];
}

const cardOf = (id) => cards.find((card) => card.id === id);

// Tells the session which models are chosen.
function choose() {
  const speech = cardOf($("speech-model").value);
  const talking = cardOf($("chat-model").value);
  const before = $("language").value;
  const options = languages(speech).map(([code, name]) => new Option(name, code));
  $("language").replaceChildren(new Option("detect language", ""), ...options);
  $("language").value = speech?.languages?.includes(before) ? before : "";
  // Where there is nothing to choose.
  $("speech-name").textContent = $("speech-model-label").hidden ? (speech?.id ?? "") : "";
  $("chat-name").textContent = $("chat-model-label").hidden ? (talking?.id ?? "") : "";
  const sees = (ability) => Boolean(talking?.abilities.includes(ability));
  const canSee = able(cards, "image").map(({ id }) => id);
  const blind = canSee.length
    ? `${talking?.id} cannot see. Choose ${canSee.join(" or ")} instead.`
    : talking
      ? `${talking.id} cannot see. Start the server with a model that can, such as demo-qwen3-vl.`
      : NO_CHAT;
  composer.setSight({ image: sees("image"), video: sees("video") }, blind);
  $("chat-hint").textContent = sees("image")
    ? "Ask something, aloud or in writing. Drop, paste or choose a picture, or show it the camera."
    : "Ask something, aloud or in writing.";
  session.configure({
    speech: speech?.id ?? null,
    chat: talking?.id ?? null,
    language: $("language").value,
  });
  showState();
}

// --- the page's elements ------------------------------------------------------------------------

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const onClick = (id, act) => $(id).addEventListener("click", act);
onClick("toggle", () => (source ? end() : listen()));
onClick("open-file", () => $("file").click());
$("file").addEventListener("change", ({ target }) => {
  if (target.files.length) openFiles([...target.files]);
  target.value = "";
});
$("key-form").addEventListener("submit", (submit) => {
  submit.preventDefault();
  session.configure({ key: $("key").value.trim() });
  findModels();
});
for (const id of ["language", "speech-model", "chat-model"])
  $(id).addEventListener("change", choose);
$("answers").addEventListener("change", ({ target }) => {
  if (source !== "file") session.configure({ answers: target.checked });
});
onClick("dismiss", () => showNotice(""));
onClick("copy", async () => {
  try {
    await navigator.clipboard.writeText(plainText(transcript.turns));
    $("copy").textContent = "Copied";
    setTimeout(() => ($("copy").textContent = "Copy"), 1500);
  } catch {
    showNotice("The browser does not let this page copy. Download the text instead.");
  }
});
onClick("txt", () => download("transcript.txt", "text/plain", plainText(transcript.turns)));
onClick("srt", () => download("transcript.srt", "application/x-subrip", srt(transcript.turns)));
onClick("vtt", () => download("transcript.vtt", "text/vtt", vtt(transcript.turns)));
onClick("clear", () => transcript.clear());
onClick("cancel", () => session.cancel());
onClick("new-chat", () => {
  chat.clear();
  session.forget();
  $("question").focus();
});
addEventListener("keydown", ({ key }) => {
  if (key === "Escape" && session.active) session.cancel();
});
addEventListener("paste", (paste) => {
  const files = [...(paste.clipboardData?.files ?? [])];
  if (!files.length) return; // text goes where the cursor is
  paste.preventDefault();
  openFiles(files);
});
addEventListener("dragover", (drag) => {
  drag.preventDefault();
  document.body.classList.add("dragging");
});
addEventListener("dragleave", (drag) => {
  if (!drag.relatedTarget) document.body.classList.remove("dragging");
});
addEventListener("drop", (drop) => {
  drop.preventDefault();
  document.body.classList.remove("dragging");
  if (drop.dataTransfer.files.length) openFiles([...drop.dataTransfer.files]);
});

findModels();
