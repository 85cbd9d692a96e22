// The camera: a preview, pictures of it, and frames while it is live.

import { pictureOfVideo, watch } from "./pictures.js";
import { checkDevices } from "../shared/problems.js";

export class Camera {
  // video: the element that shows it. onFrame(picture, timestamp_ms). onGone: it was unplugged.
  constructor(video, { onFrame, onGone }) {
    this.video = video;
    this.onFrame = onFrame;
    this.onGone = onGone;
    this.stream = null;
    this.unwatch = () => {};
  }

  get isOn() {
    return this.stream !== null;
  }

  async start() {
    checkDevices("camera");
    const stream = await navigator.mediaDevices.getUserMedia({
      video: {
        width: { ideal: 1280 },
        height: { ideal: 720 },
        facingMode: { ideal: "environment" },
      },
    });
    for (const track of stream.getTracks()) track.onended = () => this.onGone();
    this.stream = stream;
    this.video.srcObject = stream;
    await this.video.play();
  }

  stop() {
    this.setLive(false);
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = null;
    this.video.srcObject = null;
  }

  get hasPicture() {
    return this.isOn && this.video.videoWidth > 0;
  }

  take() {
    return pictureOfVideo(this.video, false);
  }

  setLive(live) {
    this.unwatch();
    this.unwatch = live ? watch(this.video, this.onFrame) : () => {};
  }
}
