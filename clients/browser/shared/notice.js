// The line above everything: what went wrong, or what is waited for.

import { $ } from "./dom.js";

// about: why it is there, for those who take it back: "starting" (no alarm), "connection" or
// "silence" (over once it is back), or "".
export function showNotice(text, about = "") {
  const notice = $("notice");
  notice.dataset.about = about;
  notice.setAttribute("role", about === "starting" ? "status" : "alert");
  $("notice-text").textContent = text;
  notice.hidden = !text;
}

// What is told for this reason is over.
export function endNotice(about) {
  if ($("notice").dataset.about === about) showNotice("");
}
