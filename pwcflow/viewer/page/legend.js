// The colour wheel: which vector has which colour, and where the pointer's vector is on it.

function shownPx(px) {
  return px >= 100 ? px.toFixed(0) : px >= 10 ? px.toFixed(1) : px.toPrecision(3);
}

class Legend {
  constructor(colors) {
    this.colors = colors;
    this.canvas = document.getElementById("wheel");
    this.dot = document.getElementById("wheel-dot");
    this.paint();
  }

  /** Paints the wheel, which is the same for every scale; its rim is at 90 % of the half width. */
  paint() {
    const size = Math.round(200 * Math.max(window.devicePixelRatio || 1, 2));
    const radius = 0.45 * size;
    [this.canvas.width, this.canvas.height] = [size, size];
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(size, size);
    const pixels = new Uint32Array(image.data.buffer);
    for (let y = 0, i = 0; y < size; y++) {
      for (let x = 0; x < size; x++, i++) {
        const [u, v] = [x + 0.5 - size / 2, y + 0.5 - size / 2];
        const inside = Math.min(Math.max(radius + 0.5 - Math.hypot(u, v), 0), 1); // of this pixel
        pixels[i] = this.colors.color(u, v, radius + 1);
        image.data[4 * i + 3] = 255 * inside;
      }
    }
    context.putImageData(image, 0, 0);
  }

  setScale(scale) {
    document.getElementById("radius").textContent = `radius ${shownPx(scale)} px`;
  }

  /** Marks a vector (u, v) in px; null for none. */
  mark(vector, scale) {
    this.dot.toggleAttribute("hidden", !vector);
    if (!vector) return;
    const [u, v] = vector;
    const shrink = (90 / scale) * Math.min(1, scale / Math.hypot(u, v) || 1);
    this.dot.setAttribute("cx", u * shrink);
    this.dot.setAttribute("cy", v * shrink);
  }
}
