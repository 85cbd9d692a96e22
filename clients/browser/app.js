// The page: microphone or file -> Session -> text. No framework, nothing from elsewhere.

import { Session } from "./session.js";

const $ = (id) => document.getElementById(id);
const TRANSCRIPTION = "conversation.item.input_audio_transcription.";
const PROVISIONAL = "lookhear.input_audio_transcription.provisional";
const WORDING = {
  idle: "not listening",
  connecting: "connecting",
  listening: "listening",
  speech: "hearing speech",
  ending: "finishing",
  lost: "connection lost, trying again",
};

let key = ""; // in memory only
let session = null;
let audio = null; // {context, stop}
const turns = new Map(); // item id -> element

function showState(state) {
  $("state").dataset.state = state;
  $("state").textContent = WORDING[state];
}

function showNotice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function clock(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

// --- transcript ---------------------------------------------------------------------------------

function turnOf(id) {
  if (!turns.has(id)) {
    $("hint").hidden = true;
    const element = document.createElement("p");
    element.className = "turn";
    const time = document.createElement("time");
    const text = document.createElement("span");
    for (const part of ["committed", "provisional", "note"]) {
      const span = document.createElement("span");
      span.className = part;
      text.append(span);
    }
    element.append(time, text);
    $("transcript").append(element);
    turns.set(id, element);
  }
  return turns.get(id);
}

function part(id, name) {
  return turnOf(id).querySelector(name);
}

function showEvent(message) {
  const id = message.item_id;
  switch (message.type) {
    case "input_audio_buffer.speech_started":
      showState("speech");
      part(id, "time").textContent = clock(message.audio_start_ms);
      break;
    case "input_audio_buffer.speech_stopped":
      showState("listening");
      break;
    case TRANSCRIPTION + "delta":
      part(id, ".committed").textContent += message.delta;
      part(id, ".provisional").textContent = "";
      break;
    case PROVISIONAL:
      part(id, ".provisional").textContent = message.text;
      break;
    case TRANSCRIPTION + "completed":
      part(id, ".provisional").textContent = "";
      if (!message.transcript.trim()) {
        turnOf(id).remove();
        turns.delete(id);
        break;
      }
      part(id, ".note").textContent = message.languages?.[0]?.code ?? "";
      $("copy").disabled = $("clear").disabled = false;
      break;
    case TRANSCRIPTION + "failed":
      part(id, ".provisional").textContent = "";
      part(id, ".note").textContent = message.error.message;
      break;
    default:
      return;
  }
  const box = $("transcript");
  box.scrollTop = box.scrollHeight;
}

// --- audio --------------------------------------------------------------------------------------

// Calls onPiece(pcm, level) for every 40 ms of what `connect(context, recorder)` plugs in.
async function record(connect, onPiece) {
  let context = new AudioContext({ sampleRate: 24000 });
  let source;
  const plug = async () => {
    await context.audioWorklet.addModule("worklet.js");
    const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
    recorder.port.onmessage = ({ data }) => onPiece(data.pcm, data.level);
    source = await connect(context, recorder);
  };
  try {
    await plug();
  } catch (error) {
    await context.close();
    // Some browsers cannot join a microphone to a context of another rate.
    if (error.name !== "NotSupportedError") throw error;
    context = new AudioContext();
    await plug();
  }
  await context.resume();
  return {
    async stop() {
      source.stop();
      await context.close();
    },
  };
}

async function microphone(onPiece) {
  if (!navigator.mediaDevices)
    throw new Error("The browser gives the microphone only to https pages and to localhost.");
  const stream = await navigator.mediaDevices.getUserMedia({
    audio: { channelCount: 1, echoCancellation: true, noiseSuppression: false },
  });
  const stop = () => stream.getTracks().forEach((track) => track.stop());
  try {
    return await record((context, recorder) => {
      context.createMediaStreamSource(stream).connect(recorder);
      return { stop };
    }, onPiece);
  } catch (error) {
    stop();
    throw error;
  }
}

async function playFile(file, onPiece, onEnd) {
  const bytes = await file.arrayBuffer();
  return record(async (context, recorder) => {
    const source = context.createBufferSource();
    try {
      source.buffer = await context.decodeAudioData(bytes.slice(0));
    } catch {
      throw new Error(`${file.name}: this browser cannot decode it as audio.`);
    }
    source.connect(recorder);
    source.connect(context.destination);
    source.onended = onEnd;
    source.start();
    return source;
  }, onPiece);
}

// --- a session from start to end ----------------------------------------------------------------

async function start(open) {
  await stop();
  showNotice("");
  turns.clear(); // item ids of another session; what they said stays on the page
  const mine = new Session({ key, language: $("language").value });
  session = mine;
  $("toggle").textContent = "Stop";
  mine.addEventListener("state", ({ detail }) => showState(detail.state));
  mine.addEventListener("event", ({ detail }) => showEvent(detail.message));
  mine.addEventListener("ready", ({ detail }) => {
    $("model").textContent = detail.session.audio?.input?.transcription?.model ?? "";
    $("key-form").hidden = true;
    listLanguages();
  });
  mine.addEventListener("lost", ({ detail }) => {
    for (const id of detail.items) turnOf(id).classList.add("void");
  });
  mine.addEventListener("failed", ({ detail }) => {
    showNotice(detail.message);
    if (detail.key) {
      $("key-form").hidden = false;
      $("key").focus();
    }
    finished();
  });
  mine.addEventListener("finished", finished);
  try {
    const opened = await open((pcm, level) => {
      $("level").value = Math.min(1, level * 4);
      mine.append(pcm);
    });
    if (session === mine) audio = opened;
    else await opened.stop();
  } catch (error) {
    showNotice(error.name === "NotAllowedError" ? "The microphone was not allowed." : error.message);
    mine.stop();
    if (session === mine) finished();
  }
}

async function stopAudio() {
  const opened = audio;
  audio = null;
  $("level").value = 0;
  await opened?.stop();
}

// What was said last is still transcribed: the session ends when its text is there.
async function end() {
  showState("ending");
  $("toggle").disabled = true;
  await stopAudio();
  session?.end();
}

function finished() {
  session = null;
  $("toggle").textContent = "Start listening";
  $("toggle").disabled = false;
  showState("idle");
  stopAudio();
}

async function stop() {
  await stopAudio();
  session?.stop();
  session = null;
}

const listen = () => start(microphone);
const hear = (file) => start((onPiece) => playFile(file, onPiece, end));

$("toggle").addEventListener("click", () => (session ? end() : listen()));
$("file").addEventListener("change", ({ target }) => {
  if (target.files.length) hear(target.files[0]);
  target.value = "";
});
$("key-form").addEventListener("submit", (submit) => {
  submit.preventDefault();
  key = $("key").value.trim();
  listen();
});
$("copy").addEventListener("click", async () => {
  const lines = [...document.querySelectorAll(".turn:not(.void) .committed")];
  await navigator.clipboard.writeText(lines.map((line) => line.textContent.trim()).join("\n"));
});
$("clear").addEventListener("click", () => {
  document.querySelectorAll(".turn").forEach((element) => element.remove());
  turns.clear();
  $("hint").hidden = false;
  $("copy").disabled = $("clear").disabled = true;
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
  if (drop.dataTransfer.files.length) hear(drop.dataTransfer.files[0]);
});

// The languages that the model knows, where the server lists them.
async function listLanguages() {
  if ($("language").options.length > 1) return;
  try {
    const headers = key ? { Authorization: `Bearer ${key}` } : {};
    const { data } = await (await fetch("v1/models", { headers })).json();
    const names = new Intl.DisplayNames([navigator.language], { type: "language" });
    for (const code of data[0].languages) $("language").append(new Option(names.of(code), code));
    $("model").textContent = data[0].id;
  } catch {
    // No key yet, or not ready: `detect` is enough.
  }
}

listLanguages();
