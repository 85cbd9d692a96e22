// Pictures made ready in the page: scaled down, as JPEG, with a thumbnail beside them.

const LONGEST_SIDE = 1280;
const FRAME_SIDE = 640;
const THUMBNAIL_SIDE = 192;
const QUALITY = 0.88;
const FRAME_PAUSE = 667; // ms: 1.5 frames a second

// A canvas with the source scaled so that no side is longer than `side`.
function scaled(source, width, height, side) {
  const scale = Math.min(1, side / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const brush = canvas.getContext("2d");
  brush.fillStyle = "white"; // under what is transparent: JPEG has no such thing
  brush.fillRect(0, 0, canvas.width, canvas.height);
  brush.imageSmoothingQuality = "high";
  brush.drawImage(source, 0, 0, canvas.width, canvas.height);
  return canvas;
}

// -> {url, thumbnail: a canvas, name}
function picture(source, width, height, side, name) {
  const url = scaled(source, width, height, side).toDataURL("image/jpeg", QUALITY);
  const thumbnail = scaled(source, width, height, THUMBNAIL_SIDE);
  return { url, thumbnail: labelled(thumbnail, name), name };
}

function labelled(canvas, name) {
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", name);
  return canvas;
}

// Another canvas like this one: an element has only one place in the page.
export function copied(thumbnail) {
  const copy = scaled(thumbnail, thumbnail.width, thumbnail.height, THUMBNAIL_SIDE);
  return labelled(copy, thumbnail.getAttribute("aria-label"));
}

export async function pictureOfFile(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    const name = file.name || "The picture";
    throw new Error(`${name}: this browser cannot read it as a picture. JPEG and PNG always work.`);
  }
  try {
    return picture(bitmap, bitmap.width, bitmap.height, LONGEST_SIDE, file.name || "picture");
  } finally {
    bitmap.close();
  }
}

// Of one that this server has.
export async function pictureOfAddress(address, name) {
  const image = new Image();
  image.src = address;
  await image.decode();
  return picture(image, image.naturalWidth, image.naturalHeight, LONGEST_SIDE, name);
}

// Of what a video element shows.
export function pictureOfVideo(video, isFrame) {
  const { videoWidth, videoHeight } = video;
  const side = isFrame ? FRAME_SIDE : LONGEST_SIDE;
  const name = isFrame ? "seen in the video" : "camera picture";
  return picture(video, videoWidth, videoHeight, side, name);
}

// Calls onFrame(picture, timestamp_ms) with what a video element shows, again and again. -> stop()
export function watch(video, onFrame) {
  const look = () => {
    if (!video.videoWidth || video.readyState < HTMLMediaElement.HAVE_CURRENT_DATA) return;
    onFrame(pictureOfVideo(video, true), Math.round(performance.now()));
  };
  const timer = setInterval(look, FRAME_PAUSE);
  look();
  return () => clearInterval(timer);
}
