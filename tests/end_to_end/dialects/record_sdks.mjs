// What SDKs for JavaScript send of one question each: `node record_sdks.mjs FOLDER [RECORDING]`,
// where FOLDER has them (npm install openai @anthropic-ai/sdk ai @ai-sdk/openai @deepgram/sdk).
// They are answered with an error, which they are told not to mind; prints JSON for http_sdks.json.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, recording] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const version = (name) =>
  JSON.parse(readFileSync(`${folder}/node_modules/${name}/package.json`)).version;

let sent = [];
const server = createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const body = Buffer.concat(pieces);
  const isJson = (request.headers["content-type"] ?? "").includes("json");
  sent.push({
    path: request.url,
    headers: request.headers,
    body: isJson ? JSON.parse(body) : body.length,
  });
  response.writeHead(400, { "content-type": "application/json", connection: "close" }).end("{}");
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const url = `http://127.0.0.1:${server.address().port}`;

const ignored = async (asked) => {
  try {
    await asked();
  } catch {
    // The answer was an error.
  }
};
const city = {
  type: "object",
  properties: { city: { type: "string", enum: ["Rome", "Oslo"] } },
  required: ["city"],
  additionalProperties: false,
};

async function openai() {
  const { default: OpenAI } = await load("openai");
  const client = new OpenAI({ apiKey: "none", baseURL: `${url}/v1`, maxRetries: 0 });
  const model = "gpt-5", max_output_tokens = 12;
  const tool = { type: "function", name: "weather", parameters: city, strict: true };
  await ignored(() => client.responses.create({ model, max_output_tokens, input: "what" }));
  await ignored(async () => {
    const stream = client.responses.stream({ model, max_output_tokens, input: "so" });
    for await (const _ of stream);
  });
  await ignored(() => client.responses.create({
    model, input: "weather", tools: [tool], tool_choice: "required", parallel_tool_calls: false,
  }));
}

async function anthropic() {
  const { default: Anthropic } = await load("@anthropic-ai/sdk");
  const client = new Anthropic({ apiKey: "none", baseURL: url, maxRetries: 0 });
  const model = "claude", max_tokens = 12;
  const messages = [{ role: "user", content: [{ type: "text", text: "what" }] }];
  const tools = [{ name: "weather", input_schema: city }];
  const tool_choice = { type: "tool", name: "weather", disable_parallel_tool_use: true };
  await ignored(() => client.messages.create({ model, max_tokens, messages }));
  await ignored(() => client.messages.stream({ model, max_tokens, messages }).finalMessage());
  await ignored(() =>
    client.messages.create({ model, max_tokens: 64, messages, tools, tool_choice }));
  await ignored(() => client.messages.countTokens({ model, messages, tools }));
}

async function aiSdk() {
  const { createOpenAI } = await load("@ai-sdk/openai");
  const { generateText, jsonSchema, streamText, tool } = await load("ai");
  const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" })("gpt-5");
  const asked = { model, maxOutputTokens: 12, maxRetries: 0, onError() {} };
  const tools = { weather: tool({ inputSchema: jsonSchema(city) }) };
  await ignored(() => generateText({ ...asked, system: "short", prompt: "what" }));
  await ignored(async () => {
    for await (const _ of streamText({ ...asked, prompt: "so" }).textStream);
  });
  await ignored(() =>
    generateText({ ...asked, maxOutputTokens: 64, prompt: "weather", tools, toolChoice: "required" }));
}

async function deepgram() {
  const { DeepgramClient } = await load("@deepgram/sdk");
  const ws = url.replace("http", "ws");
  const environment = { base: url, production: ws, agent: ws, agentRest: url };
  const client = new DeepgramClient({ apiKey: "a-key", environment, maxRetries: 0 });
  const options = { model: "nova-3", language: "en", utterances: true, smart_format: true };
  await ignored(() => client.listen.v1.media.transcribeFile(readFileSync(recording), options));
}

const found = {};
const clients = [
  ["openai", "openai (JavaScript)", openai],
  ["@anthropic-ai/sdk", "@anthropic-ai/sdk", anthropic],
  ["@ai-sdk/openai", "@ai-sdk/openai", aiSdk],
  ...(recording ? [["@deepgram/sdk", "@deepgram/sdk", deepgram]] : []),
];
const varying = /^(host|x-stainless-.*|user-agent|content-length|connection|accept-encoding)$/;
for (const [name, title, ask] of clients) {
  sent = [];
  await ask();
  for (const request of sent)
    request.headers = Object.fromEntries(
      Object.entries(request.headers).filter(([header]) => !varying.test(header)));
  found[`${title} ${version(name)}`] = sent;
}
server.close();
server.closeAllConnections();
console.log(JSON.stringify(found, null, 1));
