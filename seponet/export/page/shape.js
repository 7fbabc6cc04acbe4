"use strict";
// Values on a curved grid, drawn where its points are: every cell as two triangles, with values interpolated in each.

const MOST_PIXELS = 540;

/** The picture of a curved grid in the frame of a panel. Points are (i, j); arrays are asked for by functions of both. */
class Shape {
  /** Draws `value(i, j)` at `x(i, j)`, `y(i, j)`. `folded` then says whether cells lie on top of each other. */
  draw(panel, counts, x, y, value, scale) {
    const { width, height } = panel.box, [ni, nj] = counts;
    const w = Math.min(MOST_PIXELS, Math.round(width)), h = Math.max(1, Math.round((height / width) * w));
    if (!this.image || this.image.width !== w || this.image.height !== h) {
      this.image = new ImageData(w, h);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.owners = new Int32Array(w * h);
      this.buffer = make("canvas", { width: w, height: h });
    }
    if (this.colours !== scale.colours) { this.colours = scale.colours; this.table = colourTable(scale.colours); }
    this.pixels.fill(0);
    this.owners.fill(-1);
    this.counts = counts;
    this.px = new Float32Array(ni * nj); this.py = new Float32Array(ni * nj);
    const levels = new Float32Array(ni * nj), factor = 255 / (scale.upper - scale.lower);
    for (let i = 0, n = 0; i < ni; i++) {
      for (let j = 0; j < nj; j++, n++) {
        this.px[n] = ((panel.toX(x(i, j)) - panel.box.x) / width) * w;
        this.py[n] = ((panel.toY(y(i, j)) - panel.box.y) / height) * h;
        levels[n] = (value(i, j) - scale.lower) * factor;
      }
    }
    let positive = 0, negative = 0;
    for (let i = 0; i + 1 < ni; i++) {
      for (let j = 0; j + 1 < nj; j++) {
        const a = i * nj + j, b = a + nj;
        for (const area of [this.triangle(levels, a, b, b + 1), this.triangle(levels, a, b + 1, a + 1)]) {
          if (area > 0) positive += area; else negative -= area;
        }
      }
    }
    this.folded = Math.min(positive, negative) > 1e-3 * Math.max(positive, negative);
    this.buffer.getContext("2d").putImageData(this.image, 0, 0);
    panel.context.imageSmoothingEnabled = true;
    panel.context.drawImage(this.buffer, panel.box.x, panel.box.y, width, height);
  }

  /** Fills one triangle of points, and returns twice its signed area; one of no area, as at a pole, has no pixels. */
  triangle(levels, a, b, c) {
    const { px, py, pixels, owners, table } = this, { width, height } = this.image;
    const x0 = px[a], y0 = py[a], x1 = px[b] - x0, y1 = py[b] - y0, x2 = px[c] - x0, y2 = py[c] - y0, area = x1 * y2 - x2 * y1;
    if (Math.abs(area) < 1e-9) return 0;
    const first = Math.max(0, Math.ceil(Math.min(0, y1, y2) + y0 - 0.5)), last = Math.min(height - 1, Math.floor(Math.max(0, y1, y2) + y0 - 0.5));
    const l0 = levels[a], rise1 = (levels[b] - l0) / area, rise2 = (levels[c] - l0) / area;
    for (let row = first; row <= last; row++) {
      const v = row + 0.5 - y0;
      // The weights of b and c are affine along the row; it is inside where both and their rest are not negative.
      let from = -Infinity, to = Infinity;
      const within = (slope, at) => {
        if (slope > 0) from = Math.max(from, -at / slope); else if (slope < 0) to = Math.min(to, -at / slope); else if (at < 0) to = -Infinity;
      };
      const sign = area > 0 ? 1 : -1;
      within(sign * y2, -sign * x2 * v);
      within(-sign * y1, sign * x1 * v);
      within(sign * (y1 - y2), sign * (area + (x2 - x1) * v));
      // A little more than the triangle: no gaps between neighbours.
      const start = Math.max(0, Math.ceil(from + x0 - 0.5 - 1e-3)), end = Math.min(width - 1, Math.floor(to + x0 - 0.5 + 1e-3));
      for (let column = start; column <= end; column++) {
        const u = column + 0.5 - x0, n = row * width + column, second = u * y2 - x2 * v, third = x1 * v - u * y1;
        const level = l0 + second * rise1 + third * rise2;
        pixels[n] = table[level < 0 ? 0 : level > 255 ? 255 : (level + 0.5) | 0];
        const far = Math.abs(area);
        owners[n] = second * sign > 0.5 * far ? b : third * sign > 0.5 * far ? c : a;
      }
    }
    return area;
  }

  /** The point (i, j) whose cells are under a place of the panel, or null outside of the shape. */
  at(panel, event) {
    if (!this.owners) return null;
    const rectangle = panel.canvas.getBoundingClientRect(), { width, height } = this.image;
    const column = Math.floor(((event.clientX - rectangle.left - panel.box.x) / panel.box.width) * width);
    const row = Math.floor(((event.clientY - rectangle.top - panel.box.y) / panel.box.height) * height);
    if (column < 0 || column >= width || row < 0 || row >= height) return null;
    const owner = this.owners[row * width + column];
    return owner < 0 ? null : { i: Math.floor(owner / this.counts[1]), j: owner % this.counts[1] };
  }
}

/** A curve through points of a panel. */
function curve(panel, count, x, y, strokes) {
  const c = panel.context;
  c.lineJoin = "round";
  for (const [colour, width] of strokes) {
    c.strokeStyle = colour; c.lineWidth = width;
    c.beginPath();
    for (let k = 0; k < count; k++) c.lineTo(panel.toX(x(k)), panel.toY(y(k)));
    c.stroke();
  }
}
