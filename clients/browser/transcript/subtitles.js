// Transcripts as text and subtitles. A turn: {start, end, text, words}, milliseconds on the page's
// clock; words: [{word, start, end}] or empty, where the model has no word times.

const LONGEST_LINE = 42;
const LONGEST_CUE = 2 * LONGEST_LINE; // characters
const LONGEST_TIME = 6000; // ms

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
  return [...text.matchAll(/\S+\s*/g)].map(({ 0: word, index }) => ({
    word,
    start: start + index * each,
    end: start + (index + word.length) * each,
  }));
}

// [{start, end, text}], each short enough to be read as a subtitle.
export function cues(turns) {
  const all = [];
  for (const turn of turns) {
    let cue = null;
    for (const { word, start, end } of words(turn)) {
      const isFull =
        cue &&
        (cue.text.length + word.trimEnd().length > LONGEST_CUE ||
          end - cue.start > LONGEST_TIME ||
          (/[.!?。！？]\s*$/.test(cue.text) && cue.text.length > LONGEST_LINE));
      if (!cue || isFull) all.push((cue = { start, end, text: word }));
      else Object.assign(cue, { end, text: cue.text + word });
    }
  }
  return all.map((cue) => ({ ...cue, text: cue.text.trim() }));
}

function lines(text) {
  if (text.length <= LONGEST_LINE) return text;
  const middle = text.length / 2;
  let at = -1;
  for (const { index } of text.matchAll(/ /g))
    if (at < 0 || Math.abs(index - middle) < Math.abs(at - middle)) at = index;
  return at < 0 ? text : `${text.slice(0, at)}\n${text.slice(at + 1)}`;
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

export function srt(turns) {
  const times = ({ start, end }) => `${stamp(start, ",")} --> ${stamp(end, ",")}`;
  return cues(turns)
    .map((cue, index) => `${index + 1}\n${times(cue)}\n${lines(cue.text)}\n`)
    .join("\n");
}

export function vtt(turns) {
  const times = ({ start, end }) => `${stamp(start, ".")} --> ${stamp(end, ".")}`;
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const blocks = cues(turns).map((cue) => `${times(cue)}\n${escaped(lines(cue.text))}\n`);
  return ["WEBVTT\n", ...blocks].join("\n");
}
