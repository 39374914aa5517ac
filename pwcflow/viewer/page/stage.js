// The canvas: what is shown left and right of the divider.

class Stage {
  constructor(colors, scale) {
    this.colors = colors;
    this.scale = scale; // px
    this.geometry = new Geometry();
    this.canvas = document.getElementById("canvas");
    this.divider = document.getElementById("divider");
    this.painted = document.createElement("canvas"); // the flow's colours, a pixel a pixel
    this.paintedKey = null;
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
    const pictures = { frames: flow.first && flow.second, compare: flow.first, flow: true };
    const shown = pictures[view] ? view : "flow";
    if (shown === "frames") return [["first frame", flow.first], ["second frame", flow.second]];
    if (shown === "compare") return [["first frame", flow.first], ["flow", this.colored()]];
    return [["flow", this.colored()], null];
  }

  colored() {
    const { flow, scale, painted } = this;
    const key = `${flow.index} ${scale}`;
    if (this.paintedKey !== key) {
      if (painted.width !== flow.width || painted.height !== flow.height) {
        [painted.width, painted.height] = [flow.width, flow.height];
        this.image = null;
      }
      const context = painted.getContext("2d", { willReadFrequently: true });
      this.image ??= context.createImageData(flow.width, flow.height);
      this.colors.paint(flow.u, flow.v, scale / flow.step, new Uint32Array(this.image.data.buffer));
      context.putImageData(this.image, 0, 0);
      this.paintedKey = key;
    }
    return painted;
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
