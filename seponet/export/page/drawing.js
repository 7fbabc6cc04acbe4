"use strict";
// Canvases with axes: lines, and maps by bilinear interpolation of values, as in the plots.

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function niceNumber(x, digits = 3) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e5 || size < 1e-3) return x.toExponential(Math.max(0, digits - 1)).replace("e+", "e");
  return String(+x.toPrecision(digits));
}

function ticksOf(lower, upper, most) {
  const raw = (upper - lower) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * (1 - 1e-9));
  const ticks = [];
  for (let i = Math.ceil(lower / step - 1e-9); i * step <= upper + 1e-9 * step; i++) ticks.push(i * step);
  if (ticks.length < 2 && most < 9) return ticksOf(lower, upper, most + 2); // one number is no scale
  return ticks.map((t) => (Math.abs(t) < 1e-12 * step ? 0 : +t.toPrecision(12)));
}

/** A canvas with a frame for axes; drawn at the device's resolution. */
class Panel {
  constructor(label, aspect, margins = { left: 50, right: 14, top: 10, bottom: 36 }) {
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.aspect = aspect;
    this.margins = margins;
  }

  begin() {
    const width = Math.max(200, this.canvas.clientWidth || this.canvas.parentElement?.clientWidth || 320);
    const { left, right, top, bottom } = this.margins, wide = width - left - right;
    // With a ratio of its sides, the frame is as wide as there is room for, unless it would become too tall.
    const high = this.ratio ? Math.min(wide * this.ratio, 1.1 * wide) : Math.min(width * this.aspect, this.tallest ?? 420) - top - bottom;
    const height = Math.round(high + top + bottom);
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.context.font = FONT;
    const inner = this.ratio ? Math.min(wide, high / this.ratio) : wide;
    this.box = { x: left + (wide - inner) / 2, y: top, width: inner, height: height - top - bottom };
    this.size = { width, height };
    return this.context;
  }

  frame(across, up, rangeX, rangeY, { grid = false } = {}) {
    const c = this.context, { x, y, width, height } = this.box;
    this.rangeX = rangeX; this.rangeY = rangeY;
    c.strokeStyle = style("--line"); c.fillStyle = style("--quiet"); c.lineWidth = 1;
    c.textAlign = "center"; c.textBaseline = "top";
    for (const t of ticksOf(...rangeX, width < 260 ? 3 : 6)) {
      const at = this.toX(t);
      c.strokeStyle = style(grid ? "--grid" : "--line");
      c.beginPath(); c.moveTo(at, grid ? y : y + height); c.lineTo(at, y + height + 4); c.stroke();
      c.fillText(niceNumber(t), at, y + height + 6);
    }
    c.textAlign = "right"; c.textBaseline = "middle";
    for (const t of ticksOf(...rangeY, height < 140 ? 3 : 5)) {
      const at = this.toY(t);
      c.strokeStyle = style(grid ? "--grid" : "--line");
      c.beginPath(); c.moveTo(x - 4, at); c.lineTo(grid ? x + width : x, at); c.stroke();
      c.fillText(niceNumber(t), x - 7, at);
    }
    c.strokeStyle = style("--line");
    c.strokeRect(x, y, width, height);
    c.fillStyle = style("--ink"); c.textAlign = "center"; c.textBaseline = "bottom";
    c.font = `italic ${FONT}`;
    c.fillText(across, x + width / 2, this.size.height - 1);
    c.save(); c.translate(x - 42, y + height / 2); c.rotate(-Math.PI / 2); c.textBaseline = "middle"; c.fillText(up, 0, 0); c.restore();
    c.font = FONT;
  }

  toX(v) { return this.box.x + ((v - this.rangeX[0]) / (this.rangeX[1] - this.rangeX[0])) * this.box.width; }
  toY(v) { return this.box.y + this.box.height - ((v - this.rangeY[0]) / (this.rangeY[1] - this.rangeY[0])) * this.box.height; }

  /** The coordinates of a pointer event, and whether it is inside of the frame. */
  at(event) {
    const rectangle = this.canvas.getBoundingClientRect();
    const px = event.clientX - rectangle.left, py = event.clientY - rectangle.top, { x, y, width, height } = this.box;
    const u = (px - x) / width, v = 1 - (py - y) / height;
    return {
      x: this.rangeX[0] + u * (this.rangeX[1] - this.rangeX[0]), y: this.rangeY[0] + v * (this.rangeY[1] - this.rangeY[0]),
      inside: u >= 0 && u <= 1 && v >= 0 && v <= 1,
    };
  }

  line(points, values, { colour, width = 2, dashes = [], count = points.length, offset = 0, step = 1 } = {}) {
    const c = this.context;
    c.save();
    c.beginPath(); c.rect(this.box.x, this.box.y, this.box.width, this.box.height); c.clip();
    c.beginPath(); c.strokeStyle = colour; c.lineWidth = width; c.lineJoin = "round"; c.setLineDash(dashes);
    for (let i = 0; i < count; i++) c.lineTo(this.toX(points[i]), this.toY(values[offset + i * step]));
    c.stroke();
    c.restore();
  }

  dots(points, values, colour, radius = 2.5) {
    const c = this.context;
    c.fillStyle = colour;
    for (let i = 0; i < points.length; i++) {
      c.beginPath(); c.arc(this.toX(points[i]), this.toY(values[i]), radius, 0, 2 * Math.PI); c.fill();
    }
  }

  /** Values data[offset + i * strideX + j * strideY] at points x_i, y_j, interpolated between them. */
  map(data, xs, ys, strideX, strideY, offset, scale) {
    const { x, y, width, height } = this.box;
    const w = Math.min(360, Math.round(width)), h = Math.min(360, Math.round(height));
    if (!this.image || this.image.width !== w || this.image.height !== h) {
      this.image = new ImageData(w, h);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.buffer = document.createElement("canvas");
      this.buffer.width = w; this.buffer.height = h;
      this.places = null;
    }
    if (!this.places || this.places.xs !== xs || this.places.ys !== ys) this.places = { xs, ys, x: interpolation(xs, w, false), y: interpolation(ys, h, true) };
    if (this.colours !== scale.colours) { this.colours = scale.colours; this.table = colourTable(scale.colours); }
    const { pixels, table } = this, { index: ix, weight: wx } = this.places.x, { index: iy, weight: wy } = this.places.y;
    const factor = 255 / (scale.upper - scale.lower), lower = scale.lower;
    for (let j = 0, n = 0; j < h; j++) {
      const row = offset + iy[j] * strideY, above = row + (ys.length > 1 ? strideY : 0), q = wy[j], p = 1 - q;
      for (let i = 0; i < w; i++, n++) {
        const a = ix[i] * strideX, b = a + (xs.length > 1 ? strideX : 0), r = wx[i];
        const left = p * data[row + a] + q * data[above + a], right = p * data[row + b] + q * data[above + b];
        const level = (left + r * (right - left) - lower) * factor;
        pixels[n] = table[level < 0 ? 0 : level > 255 ? 255 : (level + 0.5) | 0];
      }
    }
    this.buffer.getContext("2d").putImageData(this.image, 0, 0);
    this.context.imageSmoothingEnabled = true;
    this.context.drawImage(this.buffer, x, y, width, height);
  }

  /** A colour bar in the right margin. */
  bar(scale) {
    const c = this.context, { y, height } = this.box, x = this.box.x + this.box.width + 10, table = colourTable(scale.colours);
    const bytes = new Uint8ClampedArray(table.buffer);
    for (let i = 0; i < height; i++) {
      const k = 4 * Math.round((1 - i / height) * 255);
      c.fillStyle = `rgb(${bytes[k]},${bytes[k + 1]},${bytes[k + 2]})`;
      c.fillRect(x, y + i, 12, 1.5);
    }
    c.strokeStyle = style("--line"); c.strokeRect(x, y, 12, height);
    c.fillStyle = style("--quiet"); c.textAlign = "left"; c.textBaseline = "middle";
    for (const t of ticksOf(scale.lower, scale.upper, height < 100 ? 3 : 5)) c.fillText(niceNumber(t), x + 16, y + height * (1 - (t - scale.lower) / (scale.upper - scale.lower)));
  }
}

/** Height over width of a frame that shows lengths as they are; of a long strip, a square one. */
function shownRatio(rangeX, rangeY) {
  const ratio = (rangeY[1] - rangeY[0]) / (rangeX[1] - rangeX[0]);
  return ratio > 0.2 && ratio < 5 ? ratio : 1;
}

/** For every pixel the point before it and the weight of the next one; `downwards` for rows, which start at the top. */
function interpolation(points, count, downwards) {
  const index = new Int32Array(count), weight = new Float32Array(count), first = points[0], last = points[points.length - 1];
  for (let i = 0, k = 0; i < count; i++) {
    const at = first + ((i + 0.5) / count) * (last - first), place = downwards ? count - 1 - i : i;
    while (k < points.length - 2 && points[k + 1] < at) k++;
    index[place] = k;
    weight[place] = points.length > 1 ? Math.min(1, Math.max(0, (at - points[k]) / (points[k + 1] - points[k]))) : 0;
  }
  return { index, weight };
}

function cross(panel, x, y) {
  const c = panel.context, px = panel.toX(x), py = panel.toY(y);
  for (const [colour, width] of [["rgba(255,255,255,.9)", 3], ["#1c2126", 1]]) {
    c.strokeStyle = colour; c.lineWidth = width;
    c.beginPath(); c.moveTo(px - 9, py); c.lineTo(px + 9, py); c.moveTo(px, py - 9); c.lineTo(px, py + 9); c.stroke();
  }
}
