"use strict";
// Editors of the inputs: sliders for numbers, a curve, a map with bumps and a brush.

/** A number, or several: sliders. */
class SliderEditor {
  constructor(name, input, shape) {
    this.name = name; this.size = product(shape);
    this.values = new Float32Array(this.size);
    this.log = Boolean(input.log);
    this.low = [input.low ?? statistic(draws[name].data)[0]].flat();
    this.high = [input.high ?? statistic(draws[name].data)[1]].flat();
    this.element = make("div");
    this.sliders = Array.from(this.values, (_, i) => {
      const label = this.size > 1 ? `${input.label}[${i}]` : input.label, id = `slider-${name}-${i}`;
      const slider = make("input", { type: "range", id, min: "0", max: "1000", step: "1" });
      const shown = make("output", { id: `${id}-value` });
      slider.setAttribute("aria-describedby", shown.id);
      slider.addEventListener("pointerdown", remember);
      slider.addEventListener("input", () => { this.values[i] = this.fromPlace(i, slider.valueAsNumber / 1000); this.show(i); changed(); });
      this.element.append(make("div", { className: "row" }, make("label", { htmlFor: id, textContent: greek(label) }), slider, shown));
      return { slider, shown };
    });
  }

  fromPlace(i, place) {
    const low = this.low[i] ?? this.low[0], high = this.high[i] ?? this.high[0];
    return this.log ? low * (high / low) ** place : low + place * (high - low);
  }

  show(i) {
    const low = this.low[i] ?? this.low[0], high = this.high[i] ?? this.high[0], value = this.values[i];
    const place = this.log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    this.sliders[i].slider.value = String(Math.round(1000 * place));
    this.sliders[i].slider.setAttribute("aria-valuetext", niceNumber(value));
    this.sliders[i].shown.textContent = niceNumber(value);
  }

  load(data, offset) { this.values.set(data.subarray(offset, offset + this.size)); this.sliders.forEach((_, i) => this.show(i)); }
  write(values) { values[this.name] = this.values; }
  snapshot() { return Float32Array.from(this.values); }
  restore(values) { this.load(values, 0); }
  draw() {}
}

/** What editors of functions share: values at sensors, those that never vary, components, a brush. */
class FunctionEditor {
  constructor(name, input, shape) {
    this.name = name; this.input = input; this.size = product(shape);
    this.values = new Float32Array(this.size);
    this.axes = input.axes;
    this.sensors = this.axes.map((axis) => input.sensors[axis]);
    this.shown = this.axes.map((axis) => input.shown[axis]);
    this.bounds = this.axes.map((axis) => input.bounds[axis]);
    this.components = shape.length > this.axes.length ? shape[0] : 1;
    this.component = 0;
    this.block = this.size / this.components;
    this.range = statistic(draws[name].data);
    const spread = this.range[1] - this.range[0] || 1;
    this.usual = [this.range[0] - 0.12 * spread, this.range[1] + 0.12 * spread];
    this.locked = this.findLocked();
    this.title = `${greek(input.label)}(${this.axes.map(greek).join(", ")})`;
    this.panel = new Panel(`Input ${this.title}`, 0.62, { left: 54, right: 12, top: 10, bottom: 36 });
    this.canvas = this.panel.canvas;
    this.canvas.classList.add("edit");
    this.canvas.tabIndex = 0;
    this.canvas.id = `canvas-${name}`;
    this.element = make("div", {}, make("h3", { textContent: this.title }), this.canvas);
    const tools = make("div", { className: "row" });
    if (this.components > 1) {
      const select = make("select", {}, ...Array.from({ length: this.components }, (_, i) => make("option", { value: i, textContent: `component ${i + 1}` })));
      select.setAttribute("aria-label", `Component of ${name}`);
      select.addEventListener("change", () => { this.component = Number(select.value); schedule(); });
      tools.append(select);
    }
    this.tools = tools;
    this.element.append(tools);
  }

  /** Sensors at which all draws agree, as at a wall with a fixed value, are left alone. */
  findLocked() {
    const { data } = draws[this.name], locked = new Uint8Array(this.size), tolerance = 1e-6 * Math.max(...this.range.map(Math.abs), 1e-30);
    for (let i = 0; i < this.size; i++) {
      let lower = Infinity, upper = -Infinity;
      for (let n = 0; n < drawCount; n++) { const v = data[n * this.size + i]; lower = Math.min(lower, v); upper = Math.max(upper, v); }
      locked[i] = upper - lower <= tolerance ? 1 : 0;
    }
    return locked;
  }

  slider(label, least, most, value, step) {
    const id = `${this.name}-${label.replace(/\W+/g, "-")}`, input = make("input", { type: "range", id, min: least, max: most, step, value });
    this.tools.append(make("label", { htmlFor: id, textContent: label }), input);
    return input;
  }

  distance(axis, a, b) {
    const { lower, upper, periodic } = this.bounds[axis], apart = Math.abs(a - b);
    return periodic ? Math.min(apart, upper - lower - apart) : apart;
  }

  length(axis) { return this.bounds[axis].upper - this.bounds[axis].lower; }
  load(data, offset) { this.values.set(data.subarray(offset, offset + this.size)); this.fit(); }
  write(values) { values[this.name] = this.values; }
  snapshot() { return Float32Array.from(this.values); }
  restore(values) { this.load(values, 0); }
  fit() {}
}

/** A function of one variable: a curve that is pulled to the pointer. */
class LineEditor extends FunctionEditor {
  constructor(name, input, shape) {
    super(name, input, shape);
    this.brush = this.slider("brush", 0.01, 0.3, 0.07, 0.01);
    this.place = Math.floor(this.sensors[0].length / 2);
    this.trail = [];
    this.element.append(make("p", { className: "hint", textContent: `Draw with mouse or finger, or choose a place with ← → and change it with ↑ ↓. Dots are the ${this.sensors[0].length} sensors; the curve is the function that the operator sees.` }));
    this.canvas.setAttribute("role", "slider");
    this.canvas.setAttribute("aria-label", `Curve ${this.title}: left and right choose a sensor, up and down change the value there`);
    this.canvas.addEventListener("pointerdown", (event) => this.start(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => { this.last = null; this.trail = []; this.fit(); schedule(); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => { this.describe(); schedule(); });
    this.canvas.addEventListener("blur", schedule);
  }

  start(event) {
    remember();
    this.canvas.setPointerCapture(event.pointerId);
    this.last = null;
    this.move(event, true);
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
  }

  move(event, first = false) {
    if (!first && !this.last) return;
    const here = this.panel.at(event), from = this.last ?? here, spacing = this.length(0) / this.sensors[0].length;
    const steps = Math.max(1, Math.ceil(Math.abs(here.x - from.x) / spacing));
    for (let i = 1; i <= steps; i++) this.pull(from.x + (i / steps) * (here.x - from.x), from.y + (i / steps) * (here.y - from.y));
    this.last = here;
    this.trail.push(here);
    changed();
  }

  /** Pulls the curve to a point; how far along the axis that is felt is the width of the brush. */
  pull(x, y) {
    const points = this.sensors[0], start = this.component * this.block, width = Math.max(Number(this.brush.value) * this.length(0), 0.4 * this.length(0) / points.length);
    const { lower, upper } = this.bounds[0], at = Math.min(Math.max(x, lower), upper);
    let near = 0;
    for (let i = 1; i < points.length; i++) if (this.distance(0, points[i], at) < this.distance(0, points[near], at)) near = i;
    const change = y - this.values[start + near];
    for (let i = 0; i < points.length; i++) {
      if (this.locked[start + i]) continue;
      const apart = this.distance(0, points[i], at) / width;
      if (apart < 4) this.values[start + i] += change * Math.exp(-0.5 * apart * apart);
    }
  }

  key(event) {
    const count = this.sensors[0].length, range = this.usual[1] - this.usual[0], big = event.shiftKey ? 5 : 1;
    const moves = { ArrowLeft: -big, ArrowRight: big, Home: -count, End: count };
    const changes = { ArrowUp: 0.02 * big, ArrowDown: -0.02 * big, PageUp: 0.1, PageDown: -0.1 };
    if (event.key in moves) {
      const { periodic } = this.bounds[0], place = this.place + moves[event.key];
      this.place = periodic && Math.abs(moves[event.key]) < count ? (place + count) % count : Math.min(Math.max(place, 0), count - 1);
    } else if (event.key in changes) {
      if (!event.repeat) remember();
      const at = this.component * this.block + this.place;
      this.pull(this.sensors[0][this.place], this.values[at] + changes[event.key] * range);
      this.fit();
      changed();
    } else return;
    event.preventDefault();
    this.describe();
    schedule();
  }

  describe() {
    const value = this.values[this.component * this.block + this.place];
    this.canvas.setAttribute("aria-valuenow", String(value));
    this.canvas.setAttribute("aria-valuemin", String(this.usual[0]));
    this.canvas.setAttribute("aria-valuemax", String(this.usual[1]));
    this.canvas.setAttribute("aria-valuetext", `${greek(this.axes[0])} = ${niceNumber(this.sensors[0][this.place])}, ${this.name} = ${niceNumber(value)}`);
  }

  /** The frame grows with the curve, but never while it is being drawn. */
  fit() {
    const [lower, upper] = statistic(this.values);
    const margin = 0.08 * (upper - lower);
    this.scale = [Math.min(this.usual[0], lower - margin), Math.max(this.usual[1], upper + margin)];
  }

  draw() {
    const panel = this.panel, start = this.component * this.block, { lower, upper } = this.bounds[0];
    panel.tallest = 300;
    panel.begin();
    panel.frame(greek(this.axes[0]), greek(this.input.label), [lower, upper], this.scale, { grid: true });
    if (this.trail.length > 1) panel.line(this.trail.map((p) => p.x), this.trail.map((p) => p.y), { colour: style("--line"), width: 6 });
    const seen = operator.outputs[`input:${this.name}`], count = this.shown[0].length;
    panel.line(this.shown[0], seen.data, { colour: style("--accent"), width: 2.2, count, offset: this.component * count });
    const values = this.values.subarray(start, start + this.block);
    panel.dots(this.sensors[0], values, style("--accent"), this.sensors[0].length > 80 ? 1.6 : 2.4);
    if (document.activeElement === this.canvas) panel.dots([this.sensors[0][this.place]], [values[this.place]], style("--second"), 5);
  }
}

/** A function of two variables: bumps to drag, and a brush. */
class MapEditor extends FunctionEditor {
  constructor(name, input, shape) {
    super(name, input, shape);
    this.panel.ratio = this.axes.includes("t") ? null : shownRatio(...this.bounds.map(({ lower, upper }) => [lower, upper]));
    this.panel.margins.right = 62;
    this.base = new Float32Array(this.size);
    this.bumps = [];
    this.selected = -1;
    this.cursor = this.bounds.map(({ lower, upper }) => (lower + upper) / 2);
    this.tool = make("select", {}, make("option", { value: "bump", textContent: "bumps" }), make("option", { value: "paint", textContent: "brush" }));
    this.tool.setAttribute("aria-label", `How to draw ${name}`);
    this.tools.append(this.tool);
    this.width = this.slider("width", 0.04, 0.4, 0.12, 0.01);
    this.strength = this.slider("strength", -1, 1, 0.5, 0.05);
    this.width.addEventListener("input", () => this.retouch());
    this.strength.addEventListener("input", () => this.retouch());
    this.element.append(make("p", { className: "hint", textContent: "Click to add a bump and drag it, or paint with the brush. Keys: arrows move, Enter adds a bump, Delete removes it, + and − change it." }));
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `Map of ${this.title}: arrows move the cursor or the chosen bump, Enter adds a bump, Delete removes it`);
    this.canvas.addEventListener("pointerdown", (event) => this.start(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => { this.dragging = false; });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", schedule);
    this.canvas.addEventListener("focus", schedule);
  }

  get amplitude() { return Number(this.strength.value) * (this.range[1] - this.range[0]); }

  add(target, { x, y, amplitude, width, component }) {
    const [xs, ys] = this.sensors, start = component * this.block;
    for (let i = 0; i < xs.length; i++) {
      const a = this.distance(0, xs[i], x) / (width * this.length(0)), along = Math.exp(-0.5 * a * a);
      if (along < 1e-6) continue;
      for (let j = 0; j < ys.length; j++) {
        const b = this.distance(1, ys[j], y) / (width * this.length(1)), at = start + i * ys.length + j;
        if (!this.locked[at]) target[at] += amplitude * along * Math.exp(-0.5 * b * b);
      }
    }
  }

  compose() {
    this.values.set(this.base);
    for (const bump of this.bumps) this.add(this.values, bump);
    changed();
  }

  bumpAt(x, y) { return { x, y, amplitude: this.amplitude, width: Number(this.width.value), component: this.component }; }

  start(event) {
    const { x, y, inside } = this.panel.at(event);
    if (!inside) return;
    remember();
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.focus({ preventScroll: true });
    this.dragging = true;
    event.preventDefault();
    if (this.tool.value === "paint") { this.paint(x, y); return; }
    const reach = 0.05;
    this.selected = this.bumps.findIndex((b) => b.component === this.component && this.distance(0, b.x, x) < reach * this.length(0) && this.distance(1, b.y, y) < reach * this.length(1));
    if (this.selected < 0) { this.bumps.push(this.bumpAt(x, y)); this.selected = this.bumps.length - 1; }
    this.cursor = [x, y];
    this.compose();
  }

  move(event) {
    if (!this.dragging) return;
    const { x, y } = this.panel.at(event);
    if (this.tool.value === "paint") this.paint(x, y);
    else this.moveBump(x, y);
  }

  moveBump(x, y) {
    const bump = this.bumps[this.selected];
    [x, y].forEach((v, k) => {
      const { lower, upper, periodic } = this.bounds[k];
      const held = periodic ? lower + ((((v - lower) % (upper - lower)) + (upper - lower)) % (upper - lower)) : Math.min(Math.max(v, lower), upper);
      this.cursor[k] = held;
      if (bump) bump[k ? "y" : "x"] = held;
    });
    if (bump) this.compose(); else schedule();
  }

  paint(x, y) {
    this.add(this.base, { ...this.bumpAt(x, y), amplitude: 0.15 * this.amplitude });
    this.cursor = [x, y];
    this.compose();
  }

  retouch() {
    const bump = this.bumps[this.selected];
    if (!bump) return;
    Object.assign(bump, { amplitude: this.amplitude, width: Number(this.width.value) });
    this.compose();
  }

  key(event) {
    const step = event.shiftKey ? 0.1 : 0.02, moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key in moves) {
      const [a, b] = moves[event.key];
      this.moveBump(this.cursor[0] + a * step * this.length(0), this.cursor[1] + b * step * this.length(1));
    } else if (event.key === "Enter" || event.key === " ") {
      remember();
      if (this.tool.value === "paint") this.paint(...this.cursor);
      else { this.bumps.push(this.bumpAt(...this.cursor)); this.selected = this.bumps.length - 1; this.compose(); }
    } else if ((event.key === "Delete" || event.key === "Backspace") && this.selected >= 0) {
      remember();
      this.bumps.splice(this.selected, 1);
      this.selected = -1;
      this.compose();
    } else if ("+-".includes(event.key)) {
      this.strength.value = String(Number(this.strength.value) + (event.key === "+" ? 0.05 : -0.05));
      this.retouch();
    } else if (event.key === "Escape") { this.selected = -1; schedule(); } else return;
    event.preventDefault();
  }

  load(data, offset) { this.base.set(data.subarray(offset, offset + this.size)); this.bumps = []; this.selected = -1; this.values.set(this.base); }
  snapshot() { return { base: Float32Array.from(this.base), bumps: this.bumps.map((b) => ({ ...b })) }; }
  restore({ base, bumps }) { this.base.set(base); this.bumps = bumps; this.selected = -1; this.values.set(base); for (const b of bumps) this.add(this.values, b); }

  draw() {
    const panel = this.panel, seen = operator.outputs[`input:${this.name}`], [xs, ys] = this.shown, size = xs.length * ys.length;
    const data = seen.data.subarray(this.component * size, (this.component + 1) * size), scale = scaleOf(data), c = panel.begin();
    panel.frame(greek(this.axes[0]), greek(this.axes[1]), ...this.bounds.map(({ lower, upper }) => [lower, upper]));
    panel.map(data, xs, ys, ys.length, 1, 0, scale);
    panel.bar(scale);
    view.wall(panel, this.axes);
    this.bumps.forEach((b, i) => {
      if (b.component !== this.component) return;
      c.beginPath(); c.arc(panel.toX(b.x), panel.toY(b.y), 7, 0, 2 * Math.PI);
      c.fillStyle = "rgba(255,255,255,.75)"; c.fill();
      c.lineWidth = i === this.selected ? 3 : 1.5; c.strokeStyle = i === this.selected ? "#D55E00" : "#1c2126"; c.stroke();
    });
    if (document.activeElement === this.canvas) cross(panel, ...this.cursor);
  }
}

/** A function of more variables can be drawn from, not drawn. */
class StackEditor extends FunctionEditor {
  constructor(name, input, shape) {
    super(name, input, shape);
    this.panel.margins.right = 62;
    this.panel.ratio = shownRatio(...this.bounds.map(({ lower, upper }) => [lower, upper]));
    this.element.append(make("p", { className: "hint", textContent: `A function of ${this.axes.length} variables, cut in the middle; choose presets or random draws.` }));
  }

  draw() {
    const { panel } = this, seen = operator.outputs[`input:${this.name}`], sizes = this.shown.map((p) => p.length), strides = stridesOf(sizes);
    const offset = sizes.slice(2).reduce((sum, n, i) => sum + Math.floor(n / 2) * strides[i + 2], 0), scale = scaleOf(seen.data);
    panel.begin();
    panel.frame(greek(this.axes[0]), greek(this.axes[1]), ...this.bounds.slice(0, 2).map(({ lower, upper }) => [lower, upper]));
    panel.map(seen.data, this.shown[0], this.shown[1], strides[0], strides[1], offset, scale);
    panel.bar(scale);
  }
}
