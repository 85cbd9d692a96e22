// The microphone's end on the audio thread, as a module that is there whenever the page is: a
// microphone is opened while the server is away, too.

// The address of the worklet's module, to be given back with URL.revokeObjectURL().
export function recorderModule() {
  return URL.createObjectURL(new Blob([`(${recorder})()`], { type: "text/javascript" }));
}

// Runs on the audio thread, so it refers to nothing outside of itself: the first channels' mean, at
// 24 kHz, as 16-bit PCM in 40 ms pieces.
function recorder() {
  const RATE = 24000;
  const PIECE = RATE / 25;

  class Recorder extends AudioWorkletProcessor {
    constructor() {
      super();
      this.step = sampleRate / RATE; // input samples per output sample
      this.at = 0; // where the next output sample lies, in input samples of this block
      this.last = 0; // the previous input sample
      this.sum = 0; // a box filter before the samples are thinned out
      this.count = 0;
      this.piece = new Int16Array(PIECE);
      this.filled = 0;
      this.power = 0;
    }

    process(inputs) {
      const channels = inputs[0];
      if (channels.length === 0) return true; // nothing is connected just now
      const length = channels[0].length;
      for (let i = 0; i < length; i++) {
        let sample = 0;
        for (const channel of channels) sample += channel[i];
        sample /= channels.length;
        if (this.step === 1) this.put(sample);
        else this.thin(sample);
      }
      return true;
    }

    // For browsers that do not give a 24 kHz context. Where there are several input samples per
    // output sample their mean is taken, else the line between two neighbours.
    thin(sample) {
      this.sum += sample;
      this.count++;
      this.at -= 1;
      while (this.at < 0) {
        const between = this.last + (sample - this.last) * Math.min(1, this.at + 1);
        this.put(this.step > 1 ? this.sum / this.count : between);
        this.sum = 0;
        this.count = 0;
        this.at += this.step;
        if (this.step > 1) break;
      }
      this.last = sample;
    }

    put(sample) {
      const clipped = Math.max(-1, Math.min(1, sample));
      this.power += clipped * clipped;
      this.piece[this.filled++] = Math.round(clipped * 32767);
      if (this.filled < PIECE) return;
      const level = Math.sqrt(this.power / PIECE);
      this.port.postMessage({ pcm: this.piece.buffer, level }, [this.piece.buffer]);
      this.piece = new Int16Array(PIECE);
      this.filled = 0;
      this.power = 0;
    }
  }

  registerProcessor("recorder", Recorder);
}
