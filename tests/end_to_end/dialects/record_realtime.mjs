// What OpenAI's SDKs for JavaScript send over a realtime socket: `node record_realtime.mjs FOLDER`,
// where FOLDER has them (npm install openai ws @openai/agents zod). The openai package knows TLS
// alone, so openssl makes a certificate. Nothing is answered but that the session is there; prints
// JSON for realtime_sdks.json. Audio is silence, of which only the size of the packets is kept.
import { execFileSync } from "node:child_process";
import { createServer } from "node:https";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const version = (name) =>
  JSON.parse(readFileSync(`${folder}/node_modules/${name}/package.json`)).version;
const { WebSocket, WebSocketServer } = (await load("ws")).default;
globalThis.WebSocket ??= WebSocket; // as browsers have one

const PACKET = 4800;
const varying = /^(host|user-agent|connection|upgrade|sec-websocket-.*|x-stainless-.*)$/;
let told;
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
const made = execFileSync("openssl", [
  "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "-", "-subj", "/CN=localhost",
], { stdio: ["ignore", "pipe", "ignore"] });
const server = createServer({ key: made, cert: made });
new WebSocketServer({ server }).on("connection", (socket, request) => {
  told.path = request.url;
  told.headers = Object.fromEntries(
    Object.entries(request.headers).filter(([header]) => !varying.test(header)));
  told.protocols = (request.headers["sec-websocket-protocol"] ?? "").split(/, */).filter(Boolean);
  socket.send(JSON.stringify({ type: "session.created", event_id: "e", session: {} }));
  socket.on("message", (data) => told.sent.push(JSON.parse(data)));
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const url = `https://127.0.0.1:${server.address().port}/v1`;
const until = async (wanted) => {
  while (!wanted()) await new Promise((done) => setTimeout(done, 10));
};
const transcription = {
  type: "transcription",
  audio: {
    input: {
      format: { type: "audio/pcm", rate: 24000 },
      transcription: { model: "gpt-4o-transcribe", language: "en", prompt: "" },
      turn_detection: { type: "server_vad", silence_duration_ms: 500 },
    },
  },
};
const silence = Buffer.alloc(PACKET); // of 100 ms

async function transcribing(name, module) {
  const { default: OpenAI } = await load("openai");
  const client = new OpenAI({ apiKey: "a-key", baseURL: url, dangerouslyAllowBrowser: true });
  const { [name]: Realtime } = await load(module);
  const connection = new Realtime({ model: "gpt-realtime", dangerouslyAllowBrowser: true }, client);
  connection.on("error", () => {});
  await new Promise((done) => connection.on("session.created", done));
  connection.send({ type: "session.update", session: transcription });
  for (let packet = 0; packet < 2; packet++)
    connection.send({ type: "input_audio_buffer.append", audio: silence.toString("base64") });
  await until(() => told.sent.length === 3);
  connection.close();
}

async function beta() {
  const { default: OpenAI } = await load("openai");
  const client = new OpenAI({ apiKey: "a-key", baseURL: url });
  const { OpenAIRealtimeWS: Realtime } = await load("openai/beta/realtime/ws");
  const connection = new Realtime({ model: "gpt-4o-realtime-preview" }, client);
  connection.on("error", () => {});
  await new Promise((done) => connection.on("session.created", done));
  const session = { modalities: ["text"], input_audio_transcription: { model: "whisper-1" } };
  connection.send({ type: "session.update", session });
  connection.send({ type: "input_audio_buffer.append", audio: silence.toString("base64") });
  await until(() => told.sent.length === 2);
  connection.close();
}

async function agent() {
  const { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket } =
    await load("@openai/agents/realtime");
  const transport = new OpenAIRealtimeWebSocket({
    url: `${url.replace("https", "wss")}/realtime?model=gpt-realtime`,
  });
  const session = new RealtimeSession(
    new RealtimeAgent({ name: "A", instructions: "Answer in one word." }), { transport });
  session.on("error", () => {});
  await session.connect({ apiKey: "a-key" });
  for (let packet = 0; packet < 2; packet++)
    session.sendAudio(new Uint8Array(silence).buffer);
  session.sendMessage("What colour is the circle?");
  await until(() => told.sent.some((event) => event.type === "response.create"));
  session.close();
}

const found = [];
const programs = [
  [`openai ${version("openai")} (JavaScript)`,
    () => transcribing("OpenAIRealtimeWS", "openai/realtime/ws")],
  [`openai ${version("openai")} (browser)`,
    () => transcribing("OpenAIRealtimeWebSocket", "openai/realtime/websocket")],
  [`openai ${version("openai")} (beta)`, beta],
  [`@openai/agents ${version("@openai/agents")}`, agent],
];
for (const [client, program] of programs) {
  told = { client, sent: [] };
  await program();
  const isAudio = (event) => event.type === "input_audio_buffer.append";
  const first = told.sent.findIndex(isAudio), last = told.sent.findLastIndex(isAudio);
  const { path, headers, protocols, sent } = told;
  const packet = Buffer.from(sent[first].audio, "base64").length;
  const append = { ...sent[first], audio: "" };
  found.push({
    client, path, headers, protocols, packet, append,
    before: sent.slice(0, first), after: sent.slice(last + 1),
  });
}
console.log(JSON.stringify(found, null, 1));
process.exit(0);
