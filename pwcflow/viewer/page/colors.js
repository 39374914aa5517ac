// The colours of pwcflow/color.py: the direction is the hue, the length the saturation.

class FlowColors {
  /** wheel: the colours around, as [red, green, blue]. */
  constructor(wheel) {
    this.steps = 512; // from one colour to the next
    const places = (wheel.length - 1) * this.steps + 1;
    this.perRadian = (places - 1) / (2 * Math.PI);
    this.lacking = [0, 1, 2].map((channel) => {
      const table = new Float32Array(places); // what white has more
      for (let place = 0; place < places; place++) {
        const before = Math.min(Math.floor(place / this.steps), wheel.length - 2);
        const share = place / this.steps - before;
        table[place] = 255 - (wheel[before][channel] * (1 - share) + wheel[before + 1][channel] * share);
      }
      return table;
    });
  }

  /** Fills RGBA bytes. u, v: components in steps; scale: the length in steps that is saturated. */
  paint(u, v, scale, rgba) {
    const [red, green, blue] = this.lacking;
    for (let i = 0, j = 0; i < u.length; i++, j += 4) {
      const [x, y] = [u[i], v[i]];
      rgba[j + 3] = 255;
      if (x === UNKNOWN) {
        rgba[j] = rgba[j + 1] = rgba[j + 2] = 0;
        continue;
      }
      let radius = Math.sqrt(x * x + y * y) / scale;
      const shade = radius > 1 ? 0.75 : 1;
      if (radius > 1) radius = 1;
      const angle = Math.atan2(y, x);
      const place = ((angle < 0 ? angle + 2 * Math.PI : angle) * this.perRadian + 0.5) | 0;
      rgba[j] = ((255 - red[place] * radius) * shade) | 0;
      rgba[j + 1] = ((255 - green[place] * radius) * shade) | 0;
      rgba[j + 2] = ((255 - blue[place] * radius) * shade) | 0;
    }
  }
}
