// Text that is put on the clipboard.

import { showNotice } from "./notice.js";

const SHOWN = 1500; // ms for which the button says so

// otherwise: what else can be done where a browser forbids it, as on pages without https.
export async function copyBy(button, text, otherwise = "") {
  button.dataset.label ??= button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = button.dataset.label), SHOWN);
  } catch {
    showNotice(`The browser does not let this page copy. ${otherwise}`.trim());
  }
}
