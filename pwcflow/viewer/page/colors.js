// The colours of pwcflow/color: the direction is the hue, the length the saturation.

const TABLE_REACH = 1024; // steps: what pictures hold mostly, as encoding.py chooses the step
const TABLE_SIDE = 2 * TABLE_REACH + 1;
const ROUNDED_UP = Math.SQRT1_2; // steps: so much longer rounding can have made the longest vector
const BLACK = 0xff000000;

class FlowColors {
  /** wheel: the colours around, as [red, green, blue]. */
  constructor(wheel) {
    this.table = new Uint32Array(TABLE_SIDE * TABLE_SIDE); // colours by v and u; 0 not computed yet
    this.tableScale = null;
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

  /** Fills pixels, a Uint32Array over RGBA bytes. u, v: components in steps, whole numbers;
      scale: the length in steps that is saturated. */
  paint(u, v, scale, pixels) {
    if (scale !== this.tableScale) {
      this.table.fill(0);
      this.tableScale = scale;
    }
    const { table } = this;
    for (let i = 0; i < pixels.length; i++) {
      const [column, row] = [u[i] + TABLE_REACH, v[i] + TABLE_REACH];
      if (column >>> 0 >= TABLE_SIDE || row >>> 0 >= TABLE_SIDE) {
        pixels[i] = this.color(u[i], v[i], scale);
      } else {
        const place = row * TABLE_SIDE + column;
        pixels[i] = table[place] || (table[place] = this.color(u[i], v[i], scale));
      }
    }
  }

  /** Returns the colour of a vector as one number, whose lowest byte is red and highest alpha. */
  color(u, v, scale) {
    if (u === UNKNOWN) return BLACK;
    let radius = Math.sqrt(u * u + v * v) / scale;
    const shade = radius > 1 + ROUNDED_UP / scale ? 0.75 : 1;
    if (radius > 1) radius = 1;
    const angle = Math.atan2(v, u);
    const place = ((angle < 0 ? angle + 2 * Math.PI : angle) * this.perRadian + 0.5) | 0;
    const [red, green, blue] = this.lacking;
    const byte = (lacking) => ((255 - lacking[place] * radius) * shade) | 0;
    return (BLACK | (byte(blue) << 16) | (byte(green) << 8) | byte(red)) >>> 0;
  }
}
