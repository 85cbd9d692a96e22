// Transcripts as text and subtitles. A turn: {start, end, text, words}, milliseconds on the page's
// clock; words: [{word, start, end}] or empty, where the model has no word times.

const LONGEST_LINE = 42; // cells, of which a letter of Chinese or Japanese has two
const LONGEST_CUE = 2 * LONGEST_LINE;
const LONGEST_TIME = 6000; // ms
// What may be broken behind: a space, and in languages without them a sign.
const BREAKABLE = /[^\s。？！、，]*[。？！、，]+[」』）”]*\s*|[^\s。？！、，]+\s*/g;
const WIDE = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\u3000-\u30ff\uff01-\uff60]/u;
const BETWEEN_WIDE = new RegExp(`${WIDE.source}(?![。？！、，」』）”])`, "gu");

const cells = (text) => [...text].reduce((sum, one) => sum + (WIDE.test(one) ? 2 : 1), 0);

// The text cut where its words begin: signs and spaces are the text's, of which words lack some.
function timed(text, words) {
  const found = [];
  let at = 0;
  for (const { word, start, end } of words) {
    const written = word.trim();
    const begin = text.indexOf(written, at);
    if (!written || begin < 0) continue;
    found.push({ begin: found.length ? begin : 0, start, end });
    at = begin + written.length;
  }
  return found.map(({ begin, start, end }, index) => ({
    word: text.slice(begin, found[index + 1]?.begin),
    start,
    end,
  }));
}

function words({ start, end, text, words }) {
  const found = timed(text, words);
  if (found.length) return found;
  // Without word times: as if every character took as long.
  const each = (end - start) / Math.max(1, text.length);
  let at = 0;
  return [...text.matchAll(BREAKABLE)].flatMap(([part]) => chopped(part)).map((word) => {
    const begin = at;
    at += word.length;
    return { word, start: start + begin * each, end: start + at * each };
  });
}

// In pieces that fit into a cue; one, if it is no longer.
function chopped(part) {
  const pieces = [""];
  for (const character of part) {
    if (cells((pieces.at(-1) + character).trimEnd()) > LONGEST_CUE) pieces.push("");
    pieces.push(pieces.pop() + character);
  }
  return pieces;
}

// [{start, end, text}], each short enough to be read. origin: where their times begin,
// on the page's clock.
export function cues(turns, origin = 0) {
  const all = [];
  for (const turn of turns) {
    let cue = null;
    for (const { word, start, end } of words(turn)) {
      const isFull =
        cue &&
        (cells(cue.text + word.trimEnd()) > LONGEST_CUE ||
          end - cue.start > LONGEST_TIME ||
          (/[.!?。！？]\s*$/.test(cue.text) && cells(cue.text) > LONGEST_LINE));
      if (!cue || isFull) all.push((cue = { start, end, text: word }));
      else Object.assign(cue, { end, text: cue.text + word });
    }
  }
  return all.map(({ start, end, text }) => ({
    start: start - origin,
    end: end - origin,
    text: text.trim(),
  }));
}

// In two lines, where it is too long for one: as even as a space or a sign allows, or else
// between two letters that have no spaces between them.
function lines(text) {
  if (cells(text) <= LONGEST_LINE) return text;
  const all = cells(text);
  const longer = (at) => Math.max(cells(text.slice(0, at)), all - cells(text.slice(0, at)));
  const evenest = (pattern) =>
    [...text.matchAll(pattern)]
      .map(({ 0: part, index }) => index + part.length)
      .filter((at) => at < text.length)
      .reduce((best, at) => (longer(at) < longer(best) ? at : best), 0);
  let at = evenest(BREAKABLE);
  if (longer(at) > LONGEST_LINE) at = evenest(BETWEEN_WIDE) || at;
  return at ? `${text.slice(0, at).trimEnd()}\n${text.slice(at)}` : text;
}

function stamp(milliseconds, point) {
  const ms = Math.max(0, Math.round(milliseconds));
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  const fraction = String(ms % 1000).padStart(3, "0");
  return `${two(ms / 3.6e6)}:${two((ms / 60000) % 60)}:${two((ms / 1000) % 60)}${point}${fraction}`;
}

export function plainText(turns) {
  return turns.map(({ text }) => `${text.trim()}\n`).join("");
}

export function srt(turns, origin) {
  const times = ({ start, end }) => `${stamp(start, ",")} --> ${stamp(end, ",")}`;
  return cues(turns, origin)
    .map((cue, index) => `${index + 1}\n${times(cue)}\n${lines(cue.text)}\n`)
    .join("\n");
}

export function vtt(turns, origin) {
  const times = ({ start, end }) => `${stamp(start, ".")} --> ${stamp(end, ".")}`;
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const blocks = cues(turns, origin).map(
    (cue) => `${times(cue)}\n${escaped(lines(cue.text))}\n`,
  );
  return ["WEBVTT\n", ...blocks].join("\n");
}
