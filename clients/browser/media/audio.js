// Sound for a session: the microphone, or a file that is played.

import { checkDevices } from "../shared/problems.js";
import { recorderModule } from "./recorder.js";

const POURED = 24_000; // samples of a piece, where sound is not played
const MOST_POURED = 10; // pieces at a time,
const POUR = 50; // every so many ms

// Calls onPiece(pcm, level) for every 40 ms of what `connect(context, recorder)` plugs in.
async function record(connect, onPiece) {
  const module = recorderModule();
  const recordAt = async (options) => {
    const context = new AudioContext(options);
    try {
      await context.audioWorklet.addModule(module);
      const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
      recorder.port.onmessage = ({ data }) => onPiece(data.pcm, data.level);
      const source = await connect(context, recorder);
      await context.resume();
      return { context, source };
    } catch (error) {
      await context.close();
      throw error;
    }
  };
  try {
    const { context, source } = await recordAt({ sampleRate: 24000 }).catch((error) => {
      // Some browsers cannot join a microphone to a context of another rate.
      if (error.name !== "NotSupportedError") throw error;
      return recordAt({});
    });
    return {
      async stop() {
        source.stop();
        await context.close();
      },
    };
  } finally {
    URL.revokeObjectURL(module);
  }
}

// device: the id of the one that is wanted, or "". onGone: it was unplugged, or taken away.
export async function microphone(device, onPiece, onGone) {
  checkDevices("microphone");
  const stream = await navigator.mediaDevices.getUserMedia({
    // As it is: what makes a call pleasant (nothing is played here) makes words harder to tell.
    audio: {
      deviceId: device ? { ideal: device } : undefined,
      channelCount: 1,
      echoCancellation: false,
      noiseSuppression: false,
      autoGainControl: false,
    },
  });
  for (const track of stream.getTracks()) track.onended = onGone;
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

// The sound of a file, to be played. Raises an Error where there is none.
export async function decodeFile(file) {
  const context = new OfflineAudioContext(1, 1, 24000);
  try {
    return await context.decodeAudioData(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name}: this browser cannot decode it as audio.`);
  }
}

// onStart(), onEnd(): of the sound. -> {stop, hurry(hasRoom)}: from then on it is not played, and what
// is left of it comes as fast as there is room.
export async function playSound(sound, onPiece, onStart, onEnd) {
  let at = 0; // samples that were passed on
  let pouring = null;
  const play = async (context, recorder) => {
    const source = new AudioBufferSourceNode(context, { buffer: sound });
    source.connect(recorder);
    source.connect(context.destination);
    source.onended = () => pouring ?? onEnd();
    source.start();
    onStart();
    return source;
  };
  const played = await record(play, (pcm, level) => {
    if (pouring !== null) return;
    at += pcm.byteLength / 2;
    onPiece(pcm, level);
  });
  const pour = (hasRoom) => {
    for (let count = 0; count < MOST_POURED && hasRoom(); count++) {
      if (at >= sound.length) {
        clearInterval(pouring);
        onEnd();
        return;
      }
      onPiece(samplesOf(sound, at, (at += POURED)), 0);
    }
  };
  return {
    async hurry(hasRoom) {
      pouring = setInterval(() => pour(hasRoom), POUR);
      await played.stop();
    },
    async stop() {
      if (pouring === null) await played.stop();
      clearInterval(pouring);
    },
  };
}

// The channels' mean of a part of it, as 16-bit PCM.
function samplesOf(sound, from, to) {
  const channels = [];
  for (let n = 0; n < sound.numberOfChannels; n++)
    channels.push(sound.getChannelData(n).subarray(from, to));
  const pcm = new Int16Array(channels[0].length);
  for (let i = 0; i < pcm.length; i++) {
    let sample = 0;
    for (const channel of channels) sample += channel[i];
    pcm[i] = Math.round(32767 * Math.max(-1, Math.min(1, sample / channels.length)));
  }
  return pcm.buffer;
}
