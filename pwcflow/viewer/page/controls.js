// Pointer, keys and buttons.

const DIVIDER_STEP = 0.02;
const ZOOM_STEP = 1.25;
const PAN_STEP = 60;

class Controls {
  constructor(stage, probe, player, setScale, scale) {
    Object.assign(this, { stage, probe, player, setScale, scale });
    this.views = [...document.querySelectorAll("input[name=view]")];
    this.connectStage();
    this.connectDivider();
    this.connectButtons();
    this.connectScale();
    document.addEventListener("keydown", (event) => this.key(event));
  }

  setView(view) {
    const input = this.views.find((other) => other.value === view);
    if (input.disabled) return;
    input.checked = true;
    this.stage.setView(view);
  }

  /** Lets only those views be chosen of which the flow has the pictures. */
  offer(flow) {
    const possible = viewsOf(flow);
    for (const input of this.views) input.disabled = !possible[input.value];
  }

  connectStage() {
    const { canvas, geometry } = this.stage;
    let held = null; // where the button went down, and whether it moved since
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      held = { at: place(event), moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) return;
      const [x, y] = place(event);
      const [dx, dy] = [x - held.at[0], y - held.at[1]];
      if (!held.moved && Math.hypot(dx, dy) <= 3) return;
      canvas.classList.add("dragged");
      geometry.pan(dx, dy);
      held = { at: [x, y], moved: true };
      this.stage.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (held && !held.moved) this.probe.toggleMark(geometry.pixelAt(...place(event)));
      held = null;
      canvas.classList.remove("dragged");
    });
    canvas.addEventListener("pointercancel", () => (held = null));
    const around = canvas.parentElement; // the divider is in it too, and has pixels under it
    around.addEventListener("pointermove", (event) => {
      this.probe.pointer = place(event);
      this.probe.update();
    });
    around.addEventListener("pointerleave", () => {
      this.probe.pointer = null;
      this.probe.update();
    });
    canvas.addEventListener("dblclick", () => this.fit());
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
        const factor = Math.exp(-event.deltaY * lines * 0.0016);
        geometry.zoomTo(geometry.zoom * factor, ...place(event));
        this.stage.draw();
      },
      { passive: false },
    );
  }

  connectDivider() {
    const { divider, canvas } = this.stage;
    divider.addEventListener("pointerdown", (event) => divider.setPointerCapture(event.pointerId));
    divider.addEventListener("pointermove", (event) => {
      if (!divider.hasPointerCapture(event.pointerId)) return;
      const box = canvas.getBoundingClientRect();
      this.stage.setShare((event.clientX - box.left) / box.width);
    });
  }

  connectButtons() {
    const click = (id, action) => document.getElementById(id).addEventListener("click", action);
    const help = document.getElementById("help");
    click("help-button", () => help.showModal());
    click("zoom-in", () => this.zoom(ZOOM_STEP));
    click("zoom-out", () => this.zoom(1 / ZOOM_STEP));
    click("zoom-fit", () => this.fit());
    click("zoom-one", () => this.oneToOne());
    click("unmark", () => this.probe.mark(null));
    click("play", () => this.player.toggle());
    click("previous", () => this.player.step(-1));
    click("next", () => this.player.step(1));
    for (const input of this.views) {
      input.addEventListener("change", () => this.setView(input.value));
    }
    const timeline = document.getElementById("timeline");
    timeline.addEventListener("input", () => this.player.jump(Number(timeline.value)));
    const fps = document.getElementById("fps");
    fps.addEventListener("change", () => {
      if (fps.value > 0) this.player.fps = Math.min(Number(fps.value), 240);
      fps.value = this.player.fps;
    });
  }

  connectScale() {
    const [number, range, reset] = ["scale", "scale-range", "scale-reset"].map((id) =>
      document.getElementById(id),
    );
    const set = (scale) => {
      this.setScale(scale);
      number.value = Number(scale.toPrecision(4));
      range.value = Math.log2(scale / this.scale);
      range.setAttribute("aria-valuetext", `${number.value} px`);
      reset.hidden = scale === this.scale;
    };
    [range.min, range.max] = [-6, 2];
    range.addEventListener("input", () => set(this.scale * 2 ** Number(range.value)));
    number.addEventListener("change", () => {
      const asked = Number(number.value);
      set(asked > 0 && Number.isFinite(asked) ? asked : this.stage.scale);
    });
    reset.textContent = `back to ${shownPx(this.scale)} px`;
    reset.addEventListener("click", () => set(this.scale));
    set(this.scale);
  }

  zoom(factor) {
    this.stage.geometry.zoomTo(this.stage.geometry.zoom * factor);
    this.stage.draw();
  }

  fit() {
    this.stage.geometry.fit();
    this.stage.draw();
  }

  oneToOne() {
    this.stage.geometry.zoomTo(1);
    this.stage.draw();
  }

  pan(dx, dy) {
    this.stage.geometry.pan(dx * PAN_STEP, dy * PAN_STEP);
    this.stage.draw();
  }

  moveDivider(by) {
    this.stage.setShare(Math.round((this.stage.share + by) * 100) / 100);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.getElementById("help").open) return; // which has its own
    const { target } = event;
    const kind = target.matches("input") ? target.type : "";
    if (kind === "number") return;
    if (event.key === " " && (kind || target.matches("button"))) return; // presses what has the focus
    const arrow = event.key.startsWith("Arrow");
    if (arrow && !event.shiftKey && kind) return; // moves it
    const action =
      target === this.stage.divider && !event.shiftKey
        ? this.dividerKey(event.key) ?? this.actionOf(event)
        : this.actionOf(event);
    if (!action) return;
    event.preventDefault();
    action();
  }

  dividerKey(key) {
    const moves = {
      ArrowLeft: -DIVIDER_STEP, ArrowDown: -DIVIDER_STEP, ArrowRight: DIVIDER_STEP,
      ArrowUp: DIVIDER_STEP, Home: -1, End: 1,
    };
    return key in moves ? () => this.moveDivider(moves[key]) : null;
  }

  actionOf(event) {
    const { player, probe } = this;
    if (event.shiftKey && event.key.startsWith("Arrow")) {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      return () => probe.moveMark(...moves[event.key]);
    }
    const actions = {
      " ": () => player.toggle(),
      ArrowLeft: () => player.step(-1),
      ArrowRight: () => player.step(1),
      PageUp: () => player.step(-10),
      PageDown: () => player.step(10),
      Home: () => player.jump(0),
      End: () => player.jump(-1),
      1: () => this.setView("frames"),
      2: () => this.setView("warped"),
      3: () => this.setView("compare"),
      4: () => this.setView("flow"),
      ",": () => this.moveDivider(-DIVIDER_STEP),
      ".": () => this.moveDivider(DIVIDER_STEP),
      x: () => this.stage.setShare(this.stage.share > 0.5 ? 0 : 1),
      "+": () => this.zoom(ZOOM_STEP),
      "=": () => this.zoom(ZOOM_STEP),
      "-": () => this.zoom(1 / ZOOM_STEP),
      0: () => this.fit(),
      o: () => this.oneToOne(),
      w: () => this.pan(0, 1),
      a: () => this.pan(1, 0),
      s: () => this.pan(0, -1),
      d: () => this.pan(-1, 0),
      Escape: () => probe.mark(null),
      "?": () => document.getElementById("help").showModal(),
    };
    return actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  }
}
