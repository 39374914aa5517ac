// The vector at one pixel: the one under the pointer, or one that is marked.

class Probe {
  constructor(stage, legend) {
    this.stage = stage;
    this.legend = legend;
    this.pointer = null; // on the stage, CSS pixels
    this.marked = null; // [column, row]
  }

  pixel() {
    if (this.marked) return this.marked;
    return this.pointer && this.stage.geometry.pixelAt(...this.pointer);
  }

  mark(pixel) {
    this.marked = pixel;
    document.getElementById("unmark").hidden = !pixel;
    this.update();
  }

  /** Marks a pixel, or removes the mark if it is on it. */
  toggleMark(pixel) {
    this.mark(String(pixel) === String(this.marked) ? null : pixel);
  }

  /** Moves the mark; the first time it is put into the middle. */
  moveMark(dx, dy) {
    const { width, height } = this.stage.flow;
    const [x, y] = this.marked ?? this.pixel() ?? [Math.floor(width / 2), Math.floor(height / 2)];
    const [stepX, stepY] = this.marked ? [dx, dy] : [0, 0];
    const within = (value, size) => Math.min(Math.max(value, 0), size - 1);
    this.mark([within(x + stepX, width), within(y + stepY, height)]);
    document.getElementById("spoken").textContent = this.sentence();
  }

  /** Returns what is at a pixel: its place in the file and its vector in px, null if unknown. */
  at([x, y]) {
    const { flow } = this.stage;
    const i = y * flow.width + x;
    const middle = (value, shown, size) => Math.floor(((2 * value + 1) * size) / (2 * shown));
    return {
      place: [middle(x, flow.width, flow.fileWidth), middle(y, flow.height, flow.fileHeight)],
      vector: flow.u[i] === UNKNOWN ? null : [flow.u[i] * flow.step, flow.v[i] * flow.step],
    };
  }

  texts() {
    const pixel = this.pixel();
    if (!pixel || !this.inFlow(pixel)) return { at: "-", u: "-", v: "-", magnitude: "-", angle: "-" };
    const { place, vector } = this.at(pixel);
    const at = `(${place[0]}, ${place[1]})`;
    if (!vector) return { at, u: "unknown", v: "unknown", magnitude: "unknown", angle: "unknown" };
    const [u, v] = vector;
    const digits = Math.min(Math.max(Math.ceil(-Math.log10(this.stage.flow.step / 2)), 0), 6);
    const px = (value) => `${value.toFixed(digits)} px`;
    const degrees = (Math.atan2(v, u) * 180) / Math.PI;
    return {
      at, u: px(u), v: px(v), magnitude: px(Math.hypot(u, v)),
      angle: u || v ? `${(Math.round((degrees < 0 ? degrees + 360 : degrees) * 10) / 10 % 360).toFixed(1)}°` : "-",
    };
  }

  sentence() {
    const { at, u, v, magnitude, angle } = this.texts();
    return u === "unknown" ? `${at}: unknown` : `${at}: u ${u}, v ${v}, magnitude ${magnitude}, angle ${angle}`;
  }

  update() {
    if (!this.stage.flow) return;
    const { at, ...values } = this.texts();
    document.getElementById("at").textContent = at;
    for (const [name, text] of Object.entries(values)) {
      document.getElementById(`value-${name}`).textContent = text;
    }
    const half = this.stage.flow.step / 2;
    document.getElementById("precision").textContent = String(Number(half.toPrecision(2)));
    const pixel = this.pixel();
    const vector = pixel && this.inFlow(pixel) ? this.at(pixel).vector : null;
    this.legend.mark(vector, this.stage.scale);
    this.drawArrow(pixel, vector);
  }

  inFlow([x, y]) {
    return x < this.stage.flow.width && y < this.stage.flow.height;
  }

  /** Draws the vector from the middle of its pixel, as long as it is. */
  drawArrow(pixel, vector) {
    const { geometry, flow } = this.stage;
    const arrow = document.getElementById("arrow");
    arrow.toggleAttribute("hidden", !pixel);
    if (!pixel) return;
    const { zoom } = geometry;
    const [left, top] = [geometry.x + pixel[0] * zoom, geometry.y + pixel[1] * zoom];
    const side = Math.max(zoom, 5);
    const [x, y] = [left + zoom / 2, top + zoom / 2];
    for (const id of ["arrow-pixel", "arrow-pixel-inner"]) {
      const box = document.getElementById(id);
      const values = { x: x - side / 2, y: y - side / 2, width: side, height: side };
      for (const [name, value] of Object.entries(values)) box.setAttribute(name, value);
    }
    let path = "";
    if (vector) {
      const dx = (vector[0] * zoom * flow.width) / flow.fileWidth;
      const dy = (vector[1] * zoom * flow.height) / flow.fileHeight;
      const length = Math.hypot(dx, dy);
      if (length > 1) {
        const head = Math.min(9, 0.4 * length) / length;
        const [endX, endY] = [x + dx, y + dy];
        const barb = (turn) => `${endX - head * (dx - turn * dy * 0.6)} ${endY - head * (dy + turn * dx * 0.6)}`;
        path = `M${x} ${y}L${endX} ${endY}M${barb(1)}L${endX} ${endY}L${barb(-1)}`;
      }
    }
    for (const id of ["arrow-halo", "arrow-line"]) document.getElementById(id).setAttribute("d", path);
  }
}
