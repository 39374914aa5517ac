// The canvas: what is shown left and right of the divider.

/** Returns which views a flow can be shown in: what has no pictures shows the flow alone. */
function viewsOf(flow) {
  const both = Boolean(flow.first && flow.second);
  return { frames: both, warped: both, compare: Boolean(flow.first), flow: true };
}

class Stage {
  constructor(colors, scale) {
    this.colors = colors;
    this.scale = scale; // px
    this.geometry = new Geometry();
    this.canvas = document.getElementById("canvas");
    this.divider = document.getElementById("divider");
    this.colored = new Derived((flow, pixels) =>
      this.colors.paint(flow.u, flow.v, this.scale / flow.step, pixels),
    );
    this.warped = new Derived(warpBack);
    this.view = "flow";
    this.share = 0.5; // of the stage's width that is left of the divider
    this.flow = null;
    this.onDraw = () => {};
    new ResizeObserver(() => this.resize()).observe(this.canvas.parentElement);
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas.parentElement;
    const density = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(clientWidth * density));
    this.canvas.height = Math.max(1, Math.round(clientHeight * density));
    this.geometry.setStage(clientWidth, clientHeight);
    this.draw();
  }

  show(flow) {
    this.flow = flow;
    this.geometry.setPicture(flow.width, flow.height);
    this.draw();
  }

  setScale(scale) {
    this.scale = scale;
    this.draw();
  }

  setView(view) {
    this.view = view;
    this.draw();
  }

  setShare(share) {
    this.share = Math.min(Math.max(share, 0), 1);
    this.draw();
  }

  /** Returns what is left and right of the divider: [name, what to draw], or null for all on the left. */
  sides() {
    const { flow, view } = this;
    const first = ["first frame", flow.first];
    const colors = ["flow", () => this.colored.of(flow, this.scale)];
    const shown = viewsOf(flow)[view] ? view : "flow";
    const [left, right] = {
      frames: [first, ["second frame", flow.second]],
      warped: [first, ["second frame, moved back", () => this.warped.of(flow)]],
      compare: [first, colors],
      flow: [colors, null],
    }[shown];
    const computed = (side) => side && [side[0], typeof side[1] === "function" ? side[1]() : side[1]];
    return [computed(left), computed(right)];
  }

  draw() {
    if (!this.flow) return;
    const { canvas, geometry, share } = this;
    const context = canvas.getContext("2d");
    const density = canvas.width / geometry.stageWidth;
    const [left, right] = this.sides();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    const pixel = geometry.zoom * density; // device pixels a pixel
    context.imageSmoothingEnabled = pixel !== 1 && pixel < 2; // from there on each is a square
    context.imageSmoothingQuality = pixel < 1 ? "high" : "low";
    const cut = right ? Math.round(share * canvas.width) : canvas.width;
    this.drawSide(context, left[1], 0, cut, density);
    if (right) this.drawSide(context, right[1], cut, canvas.width - cut, density);
    this.place(left, right);
    this.onDraw();
  }

  drawSide(context, picture, from, width, density) {
    const { geometry } = this;
    context.save();
    context.beginPath();
    context.rect(from, 0, width, this.canvas.height);
    context.clip();
    context.drawImage(
      picture,
      geometry.x * density,
      geometry.y * density,
      geometry.width * geometry.zoom * density,
      geometry.height * geometry.zoom * density,
    );
    context.restore();
  }

  place(left, right) {
    const names = [left[0], right ? right[0] : ""];
    for (const [index, id] of ["side-left", "side-right"].entries()) {
      const label = document.getElementById(id);
      label.textContent = names[index];
      label.hidden = !names[index];
    }
    this.divider.hidden = !right;
    if (!right) return;
    const percent = Math.round(this.share * 100);
    this.divider.style.left = `${this.share * 100}%`;
    this.divider.setAttribute("aria-label", `Divider between ${names[0]} and ${names[1]}`);
    this.divider.setAttribute("aria-valuenow", percent);
    this.divider.setAttribute("aria-valuetext", `${percent} % ${names[0]}`);
  }
}
