// Sound for a session: the microphone, or a file that is played.

import { checkDevices } from "../shared/problems.js";
import { recorderModule } from "./recorder.js";

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

// onStart(), onEnd(): of the sound.
export function playSound(sound, onPiece, onStart, onEnd) {
  return record(async (context, recorder) => {
    const source = new AudioBufferSourceNode(context, { buffer: sound });
    source.connect(recorder);
    source.connect(context.destination);
    source.onended = onEnd;
    source.start();
    onStart();
    return source;
  }, onPiece);
}
