// Tells of a microphone that is silent from the first.

import { endNotice, showNotice } from "../shared/notice.js";

const SILENT = 1e-4; // the level of a microphone that is muted
const LONGEST_SILENCE = 5000; // ms after which it is told of

// -> hears(level), to be called with every piece
export function silenceCheck() {
  const began = performance.now();
  let isTold = false;
  let hasSound = false;
  return (level) => {
    if (hasSound) return;
    hasSound = level > SILENT;
    if (hasSound && isTold) endNotice("silence");
    if (hasSound || isTold || performance.now() - began < LONGEST_SILENCE) return;
    isTold = true;
    showNotice(
      "The microphone is silent. It may be muted, or it may be another one that you speak into: " +
        "choose it in the settings.",
      "silence",
    );
  };
}
