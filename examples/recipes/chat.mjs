// chat.mjs
import { createReadStream, readFileSync } from "node:fs";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "https://localhost:8443/v1", apiKey: "unused" });
const heard = await client.audio.transcriptions.create({
  model: "demo-qwen3-asr",
  file: createReadStream("question.wav"),
});
const url = `data:image/png;base64,${readFileSync("scene.png", "base64")}`;
const answer = await client.chat.completions.create({
  model: "demo-qwen3-vl",
  stream: true,
  messages: [
    {
      role: "user",
      content: [
        { type: "image_url", image_url: { url } },
        { type: "text", text: heard.text },
      ],
    },
  ],
});
for await (const chunk of answer) process.stdout.write(chunk.choices[0]?.delta.content ?? "");
console.log();
