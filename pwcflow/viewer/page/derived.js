// Pictures computed from a flow, of its size: its colours, and the second frame moved back by it.

/** A picture that is computed once for a flow and whatever else it depends on. */
class Derived {
  /** compute(flow, pixels) fills a Uint32Array over RGBA bytes, which are transparent before. */
  constructor(compute) {
    this.compute = compute;
    this.canvas = document.createElement("canvas");
    this.key = null;
  }

  of(flow, more = "") {
    const key = `${flow.index} ${more}`;
    if (this.key === key) return this.canvas;
    const { canvas } = this;
    if (canvas.width !== flow.width || canvas.height !== flow.height || !this.image) {
      [canvas.width, canvas.height] = [flow.width, flow.height];
      this.context = canvas.getContext("2d", { willReadFrequently: true });
      this.image = this.context.createImageData(flow.width, flow.height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.compute(flow, this.pixels);
    this.context.putImageData(this.image, 0, 0);
    this.key = key;
    return canvas;
  }
}

/** Samples the second frame at p + flow(p), bilinearly; transparent where that is not in it. */
function warpBack(flow, pixels) {
  const { width, height, u, v } = flow;
  const source = document.createElement("canvas");
  [source.width, source.height] = [width, height];
  const context = source.getContext("2d", { willReadFrequently: true });
  context.drawImage(flow.second, 0, 0, width, height);
  const rgba = context.getImageData(0, 0, width, height).data;
  const acrossStep = (flow.step * width) / flow.fileWidth; // of shown pixels
  const downStep = (flow.step * height) / flow.fileHeight;
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      const [atX, atY] = [x + u[i] * acrossStep, y + v[i] * downStep];
      if (u[i] === UNKNOWN || !(atX >= 0 && atY >= 0 && atX <= width - 1 && atY <= height - 1)) {
        pixels[i] = 0;
        continue;
      }
      const [left, top] = [Math.floor(atX), Math.floor(atY)];
      const [right, below] = [atX - left, atY - top]; // shares
      const upper = 4 * (top * width + left);
      const toRight = left + 1 < width ? 4 : 0;
      const lower = upper + (top + 1 < height ? 4 * width : 0);
      const channel = (k) =>
        Math.round(
          (rgba[upper + k] * (1 - right) + rgba[upper + toRight + k] * right) * (1 - below) +
            (rgba[lower + k] * (1 - right) + rgba[lower + toRight + k] * right) * below,
        );
      pixels[i] = (BLACK | (channel(2) << 16) | (channel(1) << 8) | channel(0)) >>> 0;
    }
  }
}
