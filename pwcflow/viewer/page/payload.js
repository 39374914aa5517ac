// What the page embeds, decoded when it is wanted: a flow is int16 steps of u and v, a picture an
// ImageBitmap. Only the flows near the one that is shown are kept.

const UNKNOWN = -32768;

/** Returns an embedded element; while the page still loads, once all of its text is there. */
async function embedded(id) {
  for (;;) {
    const loaded = document.readyState !== "loading";
    const element = document.getElementById(id);
    if (element && (loaded || element.nextElementSibling)) return element;
    if (loaded) throw new Error(`the page is cut short: it lacks ${id}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function bytesOf(element) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(element.textContent);
  const text = atob(element.textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflated(bytes) {
  const { writable, readable } = new DecompressionStream("deflate");
  const writer = writable.getWriter();
  const written = writer.write(bytes).then(() => writer.close());
  const [data] = await Promise.all([new Response(readable).arrayBuffer(), written]);
  return new Uint8Array(data);
}

/** Undoes the prediction of encoding.py: returns u and v, each an Int16Array of rows. */
function unpredicted(bytes, width, height) {
  const size = width * height;
  const planes = [];
  for (let plane = 0; plane < 2; plane++) {
    const low = plane * size;
    const high = low + 2 * size;
    const values = new Int16Array(size);
    for (let y = 0, i = 0; y < height; y++) {
      let error = 0; // summed up along the row
      for (let x = 0; x < width; x++, i++) {
        const code = bytes[low + i] | (bytes[high + i] << 8);
        error += (code >>> 1) ^ -(code & 1);
        values[i] = (y ? values[i - width] : 0) + error; // wraps, as it did when it was made
      }
    }
    planes.push(values);
  }
  return planes;
}

class Payload {
  constructor(flows) {
    this.flows = flows;
    this.pictures = new Map(); // {bitmap: promise, users}, by key
    this.decoded = new Map(); // promises, by index
    this.shown = null;
  }

  /** Returns a flow and its pictures: {u, v, step, width, height, first, second, ...facts}. */
  load(index) {
    if (!this.decoded.has(index)) this.decoded.set(index, this.decode(index));
    return this.decoded.get(index);
  }

  /** Keeps the pictures of a flow that is on screen now, and no longer those of the one before. */
  hold(flow) {
    const before = this.shown;
    this.shown = flow;
    this.picture(flow.firstKey);
    this.picture(flow.secondKey);
    if (before) this.release(before);
  }

  /** Begins to decode the flows that come next, and forgets those far away. */
  stayNear(index, ahead) {
    const near = new Set([index, this.wrapped(index - 1)]);
    for (let more = 1; more <= ahead; more++) near.add(this.wrapped(index + more));
    for (const [other, flow] of this.decoded) {
      if (near.has(other)) continue;
      this.decoded.delete(other);
      flow.then((far) => this.release(far), () => {});
    }
    for (const other of near) this.load(other).catch(() => {}); // told when it is shown
  }

  /** Frees the pictures that nobody else uses: browsers keep decoded images long after a page does. */
  release(flow) {
    for (const key of [flow.firstKey, flow.secondKey]) {
      const picture = this.pictures.get(key);
      if (!picture || --picture.users) continue;
      this.pictures.delete(key);
      picture.bitmap.then((bitmap) => bitmap.close());
    }
  }

  wrapped(index) {
    return (index + this.flows) % this.flows;
  }

  async decode(index) {
    const element = await embedded(`flow-${index}`);
    const { name, first, second, seconds } = element.dataset;
    const [width, height] = [Number(element.dataset.width), Number(element.dataset.height)];
    const [bytes, ...pictures] = await Promise.all([
      inflated(bytesOf(element)),
      this.picture(first),
      this.picture(second),
    ]);
    if (bytes.length !== 4 * width * height) throw new Error(`${name} is damaged in this page`);
    const [u, v] = unpredicted(bytes, width, height);
    return {
      index, name, width, height, u, v,
      step: Number(element.dataset.step),
      unknown: Number(element.dataset.unknown),
      seconds: seconds === undefined ? null : Number(seconds),
      fileWidth: Number(element.dataset.fileWidth),
      fileHeight: Number(element.dataset.fileHeight),
      first: pictures[0], second: pictures[1], firstKey: first, secondKey: second,
    };
  }

  /** Returns a picture for one more user, who will `release` its flow. */
  picture(key) {
    if (key === undefined) return null;
    if (!this.pictures.has(key)) {
      const decode = async () => {
        const bytes = bytesOf(await embedded(`picture-${key}`));
        return createImageBitmap(new Blob([bytes], { type: "image/webp" }));
      };
      this.pictures.set(key, { bitmap: decode(), users: 0 });
    }
    const picture = this.pictures.get(key);
    picture.users++;
    return picture.bitmap;
  }
}
