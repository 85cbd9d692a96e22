// Where a question is made: text, pictures from files, the clipboard or the camera.

import { Camera } from "../media/camera.js";
import { $, make } from "../shared/dom.js";
import { pictureOfFile } from "../media/pictures.js";
import { deviceProblem } from "../shared/problems.js";

const MOST_PICTURES = 8; // in one question

export class Composer {
  // onAsk(text, pictures); onAttach(): there are pictures; onFrame(picture, timestamp_ms);
  // onLive(live); onProblem(text), "" when the last one is over.
  constructor({ onAsk, onAttach, onFrame, onLive, onProblem }) {
    Object.assign(this, { onAsk, onAttach, onLive, onProblem });
    this.pictures = [];
    this.sight = { image: false, video: false };
    this.blind = ""; // why there is no sight
    this.camera = new Camera($("video"), {
      onFrame,
      onGone: () => {
        this.closeCamera();
        onProblem("The camera was unplugged or taken away.");
      },
    });
    $("composer").addEventListener("submit", (submit) => {
      submit.preventDefault();
      this.ask();
    });
    $("question").addEventListener("keydown", (key) => {
      if (key.key !== "Enter" || key.shiftKey || key.isComposing) return;
      key.preventDefault();
      this.ask();
    });
    $("question").addEventListener("input", () => this.show());
    $("add-picture").addEventListener("click", () => {
      if (this.checkSight()) $("picture").click();
    });
    $("picture").addEventListener("change", ({ target }) => {
      this.attachFiles([...target.files]);
      target.value = "";
    });
    $("camera").addEventListener("click", () =>
      this.camera.isOn ? this.closeCamera() : this.openCamera(),
    );
    $("camera-off").addEventListener("click", () => {
      this.closeCamera();
      $("camera").focus();
    });
    $("take").addEventListener("click", () => {
      if (this.camera.hasPicture) this.attach(this.camera.take());
    });
    $("live").addEventListener("change", ({ target }) => this.setLive(target.checked));
  }

  // sight: {image, video}: what the model sees. blind: why it does not, in words.
  setSight(sight, blind) {
    this.sight = sight;
    this.blind = blind;
    $("live").disabled = !sight.video;
    $("live-label").hidden = !sight.video;
    if (!sight.image) this.closeCamera();
  }

  checkSight() {
    if (!this.sight.image) this.onProblem(this.blind);
    return this.sight.image;
  }

  async attachFiles(files) {
    if (!this.checkSight()) return;
    for (const file of files) {
      try {
        this.attach(await pictureOfFile(file));
      } catch (error) {
        this.onProblem(error.message);
      }
    }
    $("question").focus();
  }

  attach(picture) {
    if (this.pictures.length >= MOST_PICTURES) {
      this.onProblem(`A question takes at most ${MOST_PICTURES} pictures.`);
      return;
    }
    this.onProblem("");
    this.pictures.push(picture);
    this.show();
    this.onAttach();
  }

  // The pictures that wait, for a question that is spoken. They wait no more.
  handOver() {
    const pictures = this.pictures;
    this.pictures = [];
    this.show();
    return pictures;
  }

  show() {
    const thumbnails = this.pictures.map((picture) => {
      const away = make("button", "away", {
        type: "button",
        textContent: "✕",
        ariaLabel: `Leave out ${picture.name}`,
      });
      away.addEventListener("click", () => {
        this.pictures = this.pictures.filter((other) => other !== picture);
        this.show();
        $("question").focus();
      });
      return make("div", "attachment", { role: "listitem" }, picture.thumbnail, away);
    });
    $("attached").replaceChildren(...thumbnails);
    $("ask").disabled = !$("question").value.trim() && !this.pictures.length;
  }

  ask() {
    const text = $("question").value.trim();
    if (!text && !this.pictures.length) return;
    $("question").value = "";
    this.onAsk(text, this.handOver());
  }

  async openCamera() {
    if (!this.checkSight()) return;
    $("camera").disabled = true;
    try {
      await this.camera.start();
      if (!this.sight.image) {
        this.closeCamera(); // another model was chosen meanwhile
        return;
      }
      this.onProblem("");
      this.showCamera(true);
      $("viewfinder").scrollIntoView({ block: "nearest" });
      $("take").focus();
    } catch (error) {
      this.closeCamera();
      this.onProblem(deviceProblem(error, "camera"));
    } finally {
      $("camera").disabled = false;
    }
  }

  closeCamera() {
    if ($("live").checked) this.setLive(false);
    this.camera.stop();
    this.showCamera(false);
  }

  setLive(live) {
    $("live").checked = live;
    this.onLive(live);
    this.camera.setLive(live);
  }

  showCamera(isOn) {
    $("viewfinder").hidden = !isOn;
    $("camera").setAttribute("aria-expanded", String(isOn));
    $("camera").classList.toggle("on", isOn);
  }
}
