// Which flow of the sequence is shown, and when the next one is.

const AHEAD = 4; // flows decoded before they are wanted
const PLAY_ICON = "M7 4v16l13-8z";
const PAUSE_ICON = "M7 4v16M17 4v16";

class Player {
  constructor(payload, fps, show, fail) {
    this.payload = payload;
    this.fps = fps;
    this.show = show;
    this.fail = fail;
    this.index = 0;
    this.playing = false;
    this.asked = 0; // counts requests, so that a late answer to an old one is not shown
  }

  /** Shows a flow once it is decoded; counted from 0, and around the ends. */
  async go(index) {
    this.index = this.payload.wrapped(index);
    const asked = ++this.asked;
    this.payload.stayNear(this.index, AHEAD);
    try {
      const flow = await this.payload.load(this.index);
      if (asked === this.asked) this.show(flow);
    } catch (error) {
      this.pause();
      this.fail(error);
    }
  }

  step(by) {
    this.pause();
    const last = this.payload.flows - 1;
    this.go(Math.abs(by) === 1 ? this.index + by : Math.min(Math.max(this.index + by, 0), last));
  }

  jump(index) {
    this.pause();
    this.go(index);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  async play() {
    if (this.payload.flows < 2 || this.playing) return;
    this.setPlaying(true);
    let due = performance.now();
    while (this.playing) {
      const now = performance.now();
      due = Math.max(due + 1000 / this.fps, now - 100); // what was too slow is not caught up with
      await this.payload.load(this.payload.wrapped(this.index + 1)).catch(() => {});
      while (this.playing && performance.now() < due - 4) await nextRefresh();
      if (this.playing) await this.go(this.index + 1);
      await nextRefresh();
    }
  }

  pause() {
    this.setPlaying(false);
  }

  setPlaying(playing) {
    this.playing = playing;
    document.getElementById("play").setAttribute("aria-label", playing ? "Pause" : "Play");
    document.getElementById("play-icon").setAttribute("d", playing ? PAUSE_ICON : PLAY_ICON);
  }
}

function nextRefresh() {
  return new Promise((resolve) => requestAnimationFrame(resolve));
}
