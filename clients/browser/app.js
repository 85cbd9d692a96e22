// The page: microphone, files, questions and pictures -> Session -> text. No framework, nothing
// from elsewhere.

import { decodeFile, microphone, playSound } from "./media/audio.js";
import { AtOnce } from "./transcript/hurry.js";
import { Chat } from "./chat/chat.js";
import { Chooser } from "./chooser.js";
import { Composer } from "./chat/composer.js";
import { $, keepEnd, reveal } from "./shared/dom.js";
import { EventLog } from "./events.js";
import { Exports } from "./transcript/exports.js";
import { Graph } from "./transcript/graph.js";
import { Latency } from "./transcript/latency.js";
import { Highlight } from "./transcript/highlight.js";
import { Player } from "./transcript/player.js";
import { Preferences } from "./preferences.js";
import { deviceProblem, serverProblem } from "./shared/problems.js";
import { Samples } from "./samples.js";
import { Session } from "./session/session.js";
import { WORDING, statusOf } from "./session/status.js";
import { endNotice, showNotice } from "./shared/notice.js";
import { Transcript } from "./transcript/transcript.js";
import { silenceCheck } from "./media/silence.js";

const TRANSCRIBED = "conversation.item.input_audio_transcription.completed";
const KEPT = "lookhear.input_video_frame.kept";
const PADDING = 500; // ms, less than what turns have of the silence before their first sound
const MOST_THUMBNAILS = 100; // of frames that the server has not told of

let audio = null; // {stop} of what is heard
let source = null; // "microphone", "file", or null
let attempt = null; // at hearing it: what belongs to an earlier one may still be opened, or end
const begun = []; // where each thing that was heard began, on the page's clock
let reading = null; // the recording that is heard next, unless something else is chosen meanwhile
let played = null; // {name, turns} of the one that is heard to its end, and how many there were before
let wasLost = false; // the connection, so that the server may have been started with other models
const frames = new Map(); // thumbnails of sent frames, by timestamp
const session = new Session();
keepEnd($("transcript"), $("hint"));
keepEnd($("chat"), $("chat-hint"));
const transcript = new Transcript($("transcript"), $("hint"), {
  onChange: showExports,
  begun: (time) => begun.findLast((start) => start <= time + PADDING) ?? 0,
  seeker: (time, shown) => player.button(time, shown),
  onSeek: (time) => player.seek(time),
});
const chat = new Chat($("chat"), $("chat-hint"));
const latency = new Latency(new Graph($("latency")), $("answering-time"));
const player = new Player($("player"), $("recording-name"), {
  now: () => session.replay.end,
  onFrame: showFrame,
  onPlay: () => highlight.wake(),
  onHeard: () => session.setLive($("live").checked),
});
const atOnce = new AtOnce({
  now: () => session.replay.end,
  told: () => session.hearAgain,
  onBegin() {
    latency.begin(); // how long it takes then is no delay
    player.hurry();
  },
});
const highlight = new Highlight(
  () => transcript.all,
  () => (source ? null : player.time) ?? latency.playhead(),
  (element) => {
    if (!source) reveal($("transcript"), element); // else the end is what is looked at
  },
);
const composer = new Composer({
  onAsk: ask,
  onAttach() {
    if (source === "microphone") showToSpeech();
  },
  onFrame: showFrame,
  onLive: (live) => session.setLive(live),
  onProblem: showNotice,
});
const samples = new Samples({
  onRecording: openRecording,
  onQuestion: ask,
  onProblem: showNotice,
});
const chooser = new Chooser(session, composer, () => {
  samples.offer(chooser.chosen);
  if (source && !session.settings.speech) end();
  showState();
});
const preferences = new Preferences(session, () => {
  if (source === "microphone") listen(); // the session goes on
});
new EventLog(session.connection);
const exported = new Exports(
  () => transcript.turns,
  () => transcript.origin,
);

function ask(text, pictures) {
  showNotice("");
  const urls = pictures.map(({ url }) => url);
  chat.ask(session.ask(text, urls), text, pictures);
}

// While the microphone is on pictures go ahead of the question, which may be spoken or written.
function showToSpeech() {
  if (!session.settings.chat || !session.settings.answers) return;
  const pictures = composer.handOver();
  if (!pictures.length) return;
  const urls = pictures.map(({ url }) => url);
  chat.ask(session.ask("", urls, false), "", pictures);
}

// A frame of the live camera or of a video.
function showFrame(picture, timestamp) {
  if (!session.see(picture.url, timestamp)) return;
  frames.set(timestamp, picture.thumbnail);
  if (frames.size > MOST_THUMBNAILS) frames.delete(frames.keys().next().value);
}

// --- what is shown ------------------------------------------------------------------------------

function showState() {
  const now = statusOf(session, chooser.cards.length > 0);
  if ($("state").dataset.state !== now) {
    $("state").dataset.state = now;
    $("state").textContent = WORDING[now];
  }
  $("toggle").textContent = source ? "Stop" : "Start listening";
  $("toggle").disabled = !session.settings.speech || session.ending;
  $("open-file").disabled = !chooser.cards.length || session.ending;
  $("cancel").hidden = !session.active;
  if (source || session.ending) return;
  atOnce.hide();
  if (played?.turns === transcript.turns.length) showNotice(`Nobody is heard in ${played.name}.`);
  played = null;
}

function showExports() {
  exported.show(transcript.turns.length === 0);
  $("clear").disabled = transcript.isBlank;
}

// --- the session --------------------------------------------------------------------------------

session.addEventListener("state", showState);
session.addEventListener("ready", ({ detail }) => {
  latency.configure(detail.session);
  if (wasLost) chooser.look();
  wasLost = false;
  endNotice("connection");
  $("key-form").hidden = true;
});
session.addEventListener("event", ({ detail: { message, at } }) => {
  transcript.take(message, at);
  latency.take(message, at);
  highlight.wake();
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
session.addEventListener("unserved", async ({ detail }) => {
  if (!(await chooser.look())) session.connection.fail(detail.error.message);
});
session.addEventListener("lost", ({ detail: { why, pause } }) => {
  wasLost = true;
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
  played = null; // nobody knows who is heard in the rest
  showNotice(detail.why);
  if (detail.key) chooser.askForKey();
  transcript.giveUp();
  composer.setLive(false);
  stopAudio();
});

// --- sound --------------------------------------------------------------------------------------

// open(onPiece, onStart, onEnd) -> {stop}. onBegin(): it is heard from now on. onOpened(): what `open`
// gave.
async function start(kind, open, onBegin = () => {}, onOpened = () => {}) {
  reading = null;
  await stopAudio();
  player.pause();
  showNotice("");
  source = kind;
  begun.push(session.replay.end);
  const mine = (attempt = {});
  latency.begin();
  session.configure({ answers: kind === "microphone" && $("answers").checked });
  session.listen();
  if (kind === "microphone") showToSpeech();
  const hears = kind === "microphone" ? silenceCheck() : () => {};
  try {
    const opened = await open(
      (pcm, level) => {
        if (attempt !== mine) return;
        $("level").value = Math.min(1, level * 4);
        hears(level);
        session.append(pcm);
        if (!player.isHurried) latency.recorded(session.replay.end);
      },
      () => attempt === mine && onBegin(),
      () => attempt === mine && end(),
    );
    if (attempt === mine && session.listening) {
      audio = opened;
      onOpened(opened);
    } else await opened.stop();
  } catch (error) {
    if (attempt !== mine) return;
    showNotice(deviceProblem(error, "microphone"));
    await end();
  }
}

async function stopAudio() {
  const opened = audio;
  audio = source = attempt = null;
  $("level").value = 0;
  player.finish();
  showState();
  await opened?.stop();
}

// What was said last is still transcribed.
async function end() {
  session.endSpeech();
  await stopAudio();
}

const listen = () =>
  start("microphone", async (onPiece, _, onEnd) => {
    const onGone = () => {
      onEnd();
      showNotice("The microphone was unplugged or taken away.");
    };
    const opened = await microphone(preferences.microphones.chosen, onPiece, onGone);
    preferences.microphones.refresh(); // their names are told now
    return opened;
  });

// --- files --------------------------------------------------------------------------------------

async function openFiles(files) {
  const pictures = files.filter(({ type }) => type.startsWith("image/"));
  const [recording, ...more] = files.filter(({ type }) => !type.startsWith("image/"));
  if (pictures.length) composer.attachFiles(pictures);
  if (!recording) return;
  await openRecording(recording);
  if (more.length) showNotice(`One recording at a time: only ${recording.name} is played.`);
}

// Played as it is heard; of a video the frames are seen.
async function openRecording(file) {
  const mine = (reading = {});
  await activation();
  const slow = setTimeout(() => reading === mine && showNotice(`Reading ${file.name} …`), 500);
  const recording = await player.open(file);
  const isWatched = recording.hasVideo && composer.sight.video;
  let sound = null;
  try {
    sound = await decodeFile(file);
  } catch (error) {
    if (!recording.hasVideo) {
      if (reading === mine) showNotice(error.message);
      return;
    }
  } finally {
    clearTimeout(slow);
  }
  if (reading !== mine) return;
  if (isWatched) composer.setLive(false); // one thing is watched at a time
  const begin = () => {
    if (sound) played = { name: file.name, turns: transcript.turns.length };
    player.begin(recording, isWatched);
    if (isWatched) session.setLive(true);
  };
  if (sound && session.settings.speech)
    await start(
      "file",
      (...on) => playSound(sound, ...on),
      begin,
      (opened) => isWatched || atOnce.offer(opened, 1000 * sound.duration),
    );
  else if (isWatched) {
    await end();
    showNotice(sound ? "" : `${file.name} has no sound: it is only watched.`);
    begin();
    recording.element.addEventListener("ended", () => player.finish(), { once: true });
  } else if (sound) showNotice("No model that hears is served here.");
  else showNotice(`${file.name} has no sound, and ${composer.blind}`);
}

// Browsers play nothing before the first click or key; a file may be dropped before it.
async function activation() {
  if (navigator.userActivation?.hasBeenActive ?? true) return;
  showNotice("The browser plays no sound yet: click anywhere on this page, or press a key.");
  const events = ["pointerup", "keyup"];
  await new Promise((resolve) => {
    for (const name of events) addEventListener(name, resolve, { once: true });
  });
  showNotice("");
}

// --- the page's elements ------------------------------------------------------------------------

const onClick = (id, act) => $(id).addEventListener("click", act);
onClick("toggle", () => {
  played = null;
  return source ? end() : listen();
});
onClick("open-file", () => $("file").click());
$("file").addEventListener("change", ({ target }) => {
  if (target.files.length) openFiles([...target.files]);
  target.value = "";
});
$("answers").addEventListener("change", ({ target }) => {
  if (source !== "file") session.configure({ answers: target.checked });
});
onClick("dismiss", () => showNotice(""));
onClick("clear", () => {
  transcript.clear();
  if (source !== "file") player.clear();
});
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

chooser.find();
