// realtime.mjs
import { readFileSync } from "node:fs";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

const client = new OpenAI({ baseURL: "https://localhost:8443/v1", apiKey: "unused" });
const socket = new OpenAIRealtimeWS({ model: "demo-qwen3-asr" }, client);
const samples = Buffer.concat([readFileSync("question.wav").subarray(44), Buffer.alloc(48_000)]);

socket.socket.on("open", () => {
  for (let first = 0; first < samples.length; first += 4800) {
    const audio = samples.subarray(first, first + 4800).toString("base64");
    socket.send({ type: "input_audio_buffer.append", audio });
  }
});
const transcription = "conversation.item.input_audio_transcription";
socket.on(`${transcription}.delta`, (event) => process.stdout.write(event.delta));
socket.on(`${transcription}.completed`, () => {
  console.log();
  socket.close();
});
socket.on("error", (error) => {
  console.error(error);
  process.exitCode = 1;
  socket.close();
});
