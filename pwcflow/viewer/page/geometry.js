// Where the picture lies on the stage, in CSS pixels: stage = offset + zoom * picture.

const MOST_ZOOM = 64;

class Geometry {
  constructor() {
    this.zoom = 1;
    this.x = this.y = 0;
    this.width = this.height = 1; // of the picture
    this.stageWidth = this.stageHeight = 1;
    this.fitting = true; // until the user zooms or pans
  }

  setStage(width, height) {
    if (!this.fitting) {
      this.x += (width - this.stageWidth) / 2;
      this.y += (height - this.stageHeight) / 2;
    }
    [this.stageWidth, this.stageHeight] = [width, height];
    this.settle();
  }

  setPicture(width, height) {
    if (width === this.width && height === this.height) return;
    [this.width, this.height] = [width, height];
    this.settle();
  }

  fit() {
    this.fitting = true;
    this.settle();
  }

  /** Zooms so that the point (x, y) of the stage stays; without one, its middle. */
  zoomTo(zoom, x = this.stageWidth / 2, y = this.stageHeight / 2) {
    this.fitting = false;
    zoom = Math.min(Math.max(zoom, Math.min(this.fitZoom(), 1) / 4), MOST_ZOOM);
    this.x = x - ((x - this.x) * zoom) / this.zoom;
    this.y = y - ((y - this.y) * zoom) / this.zoom;
    this.zoom = zoom;
    this.settle();
  }

  pan(dx, dy) {
    this.fitting = false;
    this.x += dx;
    this.y += dy;
    this.settle();
  }

  /** Returns the pixel at a point of the stage; null outside the picture. */
  pixelAt(x, y) {
    const [column, row] = [Math.floor((x - this.x) / this.zoom), Math.floor((y - this.y) / this.zoom)];
    const inside = column >= 0 && row >= 0 && column < this.width && row < this.height;
    return inside ? [column, row] : null;
  }

  fitZoom() {
    return Math.min(this.stageWidth / this.width, this.stageHeight / this.height, MOST_ZOOM);
  }

  settle() {
    if (this.fitting) {
      this.zoom = this.fitZoom();
      this.x = (this.stageWidth - this.width * this.zoom) / 2;
      this.y = (this.stageHeight - this.height * this.zoom) / 2;
    } else {
      // some of the picture stays in sight
      const [w, h] = [this.width * this.zoom, this.height * this.zoom];
      const keep = 40;
      this.x = Math.min(Math.max(this.x, keep - w), this.stageWidth - keep);
      this.y = Math.min(Math.max(this.y, keep - h), this.stageHeight - keep);
    }
    if (Number.isInteger(this.zoom)) {
      [this.x, this.y] = [Math.round(this.x), Math.round(this.y)]; // pixels on pixels
    }
  }
}
