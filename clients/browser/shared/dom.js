// Small helpers for the page's elements.

export const $ = (id) => document.getElementById(id);

// A new element. what: properties, or the text alone.
export function make(tag, className = "", what = {}, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  Object.assign(element, typeof what === "string" ? { textContent: what } : what);
  element.append(...children);
  return element;
}

function isAtEnd(box) {
  return box.scrollHeight - box.scrollTop - box.clientHeight < 60;
}

// Runs `change` and keeps the end of the box in view if it was there.
export function following(box, change) {
  const wasAtEnd = isAtEnd(box);
  change();
  if (wasAtEnd) box.scrollTop = box.scrollHeight;
}

// The same when the box gets another size. Of a hint the beginning is what is read.
export function keepEnd(box, hint) {
  let wasAtEnd = true;
  box.addEventListener("scroll", () => (wasAtEnd = isAtEnd(box)));
  new ResizeObserver(() => {
    if (wasAtEnd && hint.hidden) box.scrollTop = box.scrollHeight;
  }).observe(box);
}

// Scrolls the box, and nothing else, as far as the element in it is out of sight.
export function reveal(box, element) {
  const [frame, place] = [box.getBoundingClientRect(), element.getBoundingClientRect()];
  const [above, below] = [frame.top - place.top, place.bottom - frame.bottom];
  if (above > 0) box.scrollTop -= above + place.height;
  else if (below > 0) box.scrollTop += below + place.height;
}

// For screen readers: text that will not change any more, each piece once.
export function announce(text) {
  const box = $("announcer");
  box.append(make("p", "", text));
  while (box.childElementCount > 20) box.firstElementChild.remove();
}

// "1:05" of milliseconds.
export function clock(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
