// What the server serves: asked until it is ready.

const PAUSE = 1500;

export class KeyWanted extends Error {}

// The cards of GET v1/models, once there are any. onWait(text): what it waits for.
export async function servedModels(key, onWait) {
  for (;;) {
    const headers = key ? { Authorization: `Bearer ${key}` } : {};
    try {
      const answer = await fetch("v1/models", { headers });
      if (answer.status === 401) throw new KeyWanted();
      if (answer.ok) {
        const { data } = await answer.json();
        if (data.length) return data;
      }
      onWait(await progress());
    } catch (error) {
      if (error instanceof KeyWanted) throw error;
      onWait("The server is away. This page goes on when it is back.");
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

// What its start is doing, in words.
async function progress() {
  const { models = [] } = await (await fetch("ready")).json();
  const loading = models.find(({ state }) => state !== "ready");
  if (!loading) return "The server is starting.";
  const share = loading.progress ? ` (${Math.round(100 * loading.progress)} %)` : "";
  return `The server is starting: ${loading.name}, ${loading.stage || loading.state}${share}`;
}

export function able(cards, ability) {
  return cards.filter(({ abilities }) => abilities?.includes(ability));
}

export function languageName(code) {
  return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
}

// The languages of a model as [code, name], by name.
export function languages(card) {
  const named = (card?.languages ?? []).map((code) => [code, languageName(code)]);
  return named.sort((a, b) => a[1].localeCompare(b[1]));
}
