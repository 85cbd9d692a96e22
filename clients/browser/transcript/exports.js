// What can be taken away of a transcript: copied, or downloaded as text or subtitles.

import { $ } from "../shared/dom.js";
import { copyBy } from "../shared/copying.js";
import { plainText, srt, vtt } from "./subtitles.js";

const FILES = {
  txt: ["text/plain", plainText],
  srt: ["application/x-subrip", srt],
  vtt: ["text/vtt", vtt],
};

export class Exports {
  // turns(): finished ones. origin(): where the times of subtitles begin, on the page's clock.
  constructor(turns, origin) {
    for (const [ending, [type, written]] of Object.entries(FILES))
      $(ending).addEventListener("click", () =>
        download(`transcript.${ending}`, type, written(turns(), origin())),
      );
    $("copy").addEventListener("click", () =>
      copyBy($("copy"), plainText(turns()), "Download the text instead."),
    );
  }

  show(isEmpty) {
    for (const id of ["copy", ...Object.keys(FILES)]) $(id).disabled = isEmpty;
  }
}

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
