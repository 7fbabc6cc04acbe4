"use strict";
// The page: editors of the inputs, views of the solution, and the state that a link carries.

const element = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

const bytesOf = (text) => Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));

const program = JSON.parse(element("program").textContent);
const operator = new FrozenOperator(program, unpackNumbers(program.rounded, bytesOf(element("numbers").textContent), bytesOf(element("rounded").textContent)));
const about = program.about;
const inputNames = program.inputs.map(({ name }) => name);
const state = { values: {}, time: 0, quantity: about.quantities[0], history: [], strokes: 0, cursor: null };
const draws = Object.fromEntries(inputNames.map((name) => [name, operator.arrays[`draws:${name}`]]));
const drawCount = inputNames.length ? draws[inputNames[0]].shape[0] : 0;
const timing = { compute: 0, draw: 0, total: 0 };
let editors = [], view = null, dirty = true, scheduled = false, changedAt = 0;

const percent = (x) => `${niceNumber(100 * x, 2)} %`;
const statistic = (data, start = 0, end = data.length) => {
  let lower = Infinity, upper = -Infinity;
  for (let i = start; i < end; i++) { lower = Math.min(lower, data[i]); upper = Math.max(upper, data[i]); }
  return [lower, upper];
};

/** A change of the input: computed and drawn with the next frame. */
function changed() {
  if (!dirty) changedAt = performance.now();
  dirty = true;
  schedule();
}

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => { scheduled = false; update(); });
}

function update() {
  const began = performance.now();
  if (dirty) {
    for (const editor of editors) editor.write(state.values);
    operator.run(state.values);
    view.rescale();
    timing.compute = performance.now() - began;
  }
  const computed = performance.now();
  for (const editor of editors) editor.draw();
  view.draw();
  tell();
  const now = performance.now();
  timing.draw = now - computed;
  if (dirty) {
    timing.total = timing.compute + timing.draw;
    if (changedAt) element("speed").textContent = `${timing.compute.toFixed(1)} ms to compute, ${timing.draw.toFixed(1)} ms to draw`;
    dirty = false;
    saveState();
  }
}

function remember() {
  state.history.push(editors.map((editor) => editor.snapshot()));
  if (state.history.length > 50) state.history.shift();
  element("undo").disabled = false;
}

function undo() {
  const before = state.history.pop();
  if (!before) return;
  editors.forEach((editor, i) => editor.restore(before[i]));
  element("undo").disabled = !state.history.length;
  changed();
}

function useDraw(number) {
  for (const editor of editors) editor.load(draws[editor.name].data, number * editor.size);
  changed();
}

/** The error and whether the input is like those that were trained on, in words. */
function tell() {
  const { error, upper_95, score } = operator.outputs, outside = score && !(score.data[0] <= 1), line = element("error");
  const warning = element("warning");
  if (outside) {
    const text = `This input is outside of what the operator was trained on (${niceNumber(score.data[0], 2)} times the usual range). The solution may be wrong, and an error estimate would be a guess.`;
    if (warning.dataset.text !== text) {
      warning.dataset.text = text;
      warning.textContent = `⚠ ${text} `;
      if (inputNames.some((name) => operator.outputs[`nearest:${name}`])) {
        warning.append(make("button", { type: "button", textContent: "Nearest usual input", onclick: pullInside }));
      }
    }
  }
  warning.hidden = !outside;
  line.textContent = "";
  if (error && !outside) {
    line.append("Estimated relative L² error ", make("b", { textContent: percent(error.data[0]) }), `; in 95 % of cases below ${percent(upper_95.data[0])}.`);
  } else if (error) {
    line.append("Relative L² error, guessed from the residual: ", make("b", { textContent: percent(error.data[0]) }), "; not calibrated for such inputs.");
  } else {
    line.append("No error estimate for this input: the operator is not calibrated.");
  }
  if (about.test_error) line.append(` Mean over ${about.test_error.functions} test functions: ${percent(about.test_error.mean)}.`);
}

function pullInside() {
  remember();
  for (const editor of editors) {
    const nearest = operator.outputs[`nearest:${editor.name}`];
    if (nearest) editor.load(Float32Array.from(nearest.data), 0);
  }
  changed();
}

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
    this.bounds = this.axes.map((axis) => about.axes[axis]);
    this.components = shape.length > this.axes.length ? shape[0] : 1;
    this.component = 0;
    this.block = this.size / this.components;
    this.range = statistic(draws[name].data);
    const spread = this.range[1] - this.range[0] || 1;
    this.usual = [this.range[0] - 0.12 * spread, this.range[1] + 0.12 * spread];
    this.locked = this.findLocked();
    this.title = `${greek(input.label)}(${this.axes.join(", ")})`;
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
    this.canvas.setAttribute("aria-valuetext", `${this.axes[0]} = ${niceNumber(this.sensors[0][this.place])}, ${this.name} = ${niceNumber(value)}`);
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
    panel.frame(this.axes[0], this.input.label, [lower, upper], this.scale, { grid: true });
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
    this.panel.square = !this.axes.includes("t");
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
    panel.frame(this.axes[0], this.axes[1], ...this.bounds.map(({ lower, upper }) => [lower, upper]));
    panel.map(data, xs, ys, ys.length, 1, 0, scale);
    panel.bar(scale);
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
    this.panel.square = true;
    this.element.append(make("p", { className: "hint", textContent: `A function of ${this.axes.length} variables, cut in the middle; choose presets or random draws.` }));
  }

  draw() {
    const { panel } = this, seen = operator.outputs[`input:${this.name}`], sizes = this.shown.map((p) => p.length), strides = stridesOf(sizes);
    const offset = sizes.slice(2).reduce((sum, n, i) => sum + Math.floor(n / 2) * strides[i + 2], 0), scale = scaleOf(seen.data);
    panel.begin();
    panel.frame(this.axes[0], this.axes[1], ...this.bounds.slice(0, 2).map(({ lower, upper }) => [lower, upper]));
    panel.map(seen.data, this.shown[0], this.shown[1], strides[0], strides[1], offset, scale);
    panel.bar(scale);
  }
}

function cross(panel, x, y) {
  const c = panel.context, px = panel.toX(x), py = panel.toY(y);
  for (const [colour, width] of [["rgba(255,255,255,.9)", 3], ["#1c2126", 1]]) {
    c.strokeStyle = colour; c.lineWidth = width;
    c.beginPath(); c.moveTo(px - 9, py); c.lineTo(px + 9, py); c.moveTo(px, py - 9); c.lineTo(px, py + 9); c.stroke();
  }
}

/** The solution: a line, a map with a line cut out of it, or a film. */
class SolutionView {
  constructor(container) {
    this.names = Object.keys(about.coordinates).filter((axis) => Array.isArray(about.coordinates[axis]));
    this.points = Object.fromEntries(this.names.map((axis) => [axis, about.coordinates[axis]]));
    this.sizes = this.names.map((axis) => this.points[axis].length);
    this.strides = Object.fromEntries(stridesOf(this.sizes).map((s, i) => [this.names[i], s]));
    const free = this.names.filter((axis) => this.points[axis].length > 1);
    this.fixed = Object.fromEntries(this.names.filter((axis) => !free.includes(axis)).map((axis) => [axis, 0]));
    if (free.length > 2) {
      const along = free.includes("t") ? "t" : free[0], [across, up, ...rest] = free.filter((axis) => axis !== along);
      Object.assign(this, { across, up, along });
      for (const axis of rest) this.fixed[axis] = Math.floor(this.points[axis].length / 2);
    } else if (free.length === 2) {
      const [across, up] = free[0] === "t" ? [free[1], free[0]] : free;
      Object.assign(this, { across, up, along: up });
    } else [this.across] = free;
    this.film = free.length > 2;
    if (this.up) {
      this.mapPanel = new Panel("Map of the solution", 0.62, { left: 54, right: 66, top: 10, bottom: 36 });
      this.mapPanel.square = this.across !== "t" && this.up !== "t";
      this.mapPanel.canvas.id = "solution-map";
      this.watch(this.mapPanel, true);
      container.append(make("h3", { id: "map-title" }), this.mapPanel.canvas);
    }
    if (this.across && !this.film) {
      this.linePanel = new Panel("The solution along one axis", 0.42, { left: 54, right: this.up ? 66 : 14, top: 10, bottom: 36 });
      this.linePanel.tallest = 240;
      this.linePanel.canvas.id = "solution-line";
      this.watch(this.linePanel, false);
      container.append(make("h3", { id: "line-title" }), this.linePanel.canvas);
    }
    // A film and a cut through a history begin at the end; a cut through a space in its middle, away from walls.
    this.timed = this.along === "t";
    state.time = this.along ? Math.floor((this.points[this.along].length - 1) / (this.timed ? 1 : 2)) : 0;
  }

  get moment() { return `${state.quantity} at ${this.along} = ${niceNumber(this.points[this.along][state.time])}`; }
  get data() { return operator.outputs[state.quantity].data; }

  rescale() { this.scale = scaleOf(this.data); }

  offset(time = state.time) {
    let at = this.film ? time * this.strides[this.along] : 0;
    for (const [axis, i] of Object.entries(this.fixed)) at += i * this.strides[axis];
    return at;
  }

  /** Pointer and arrow keys choose a point, whose value is told. */
  watch(panel, isMap) {
    const { canvas } = panel;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `${canvas.getAttribute("aria-label")}: arrows move the point whose value is told`);
    const nearest = (axis, v) => this.points[axis].reduce((best, p, i, all) => (Math.abs(p - v) < Math.abs(all[best] - v) ? i : best), 0);
    const choose = (event) => {
      const { x, y, inside } = panel.at(event);
      if (!inside) return;
      state.cursor = { i: nearest(this.across, x), j: this.up ? (isMap ? nearest(this.up, y) : state.time) : 0 };
      if (isMap && !this.film && event.buttons) this.setTime(state.cursor.j);
      this.readOut();
      schedule();
    };
    canvas.addEventListener("pointermove", choose);
    canvas.addEventListener("pointerdown", (event) => { choose(event); event.preventDefault(); canvas.focus({ preventScroll: true }); });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      if (!(event.key in moves)) return;
      event.preventDefault();
      const [a, b] = moves[event.key], big = event.shiftKey ? 10 : 1, cursor = state.cursor ?? { i: 0, j: 0 };
      const limit = (v, axis) => (axis ? Math.min(Math.max(v, 0), this.points[axis].length - 1) : 0);
      state.cursor = { i: limit(cursor.i + a * big, this.across), j: limit(cursor.j + b * big, this.up) };
      if (!this.film && this.up && b) this.setTime(state.cursor.j);
      this.readOut();
      schedule();
    });
  }

  setTime(i) {
    state.time = i;
    element("time").value = String(i);
    showTime();
    schedule();
  }

  readOut() {
    if (!state.cursor || !this.across) return;
    const { i, j } = state.cursor;
    const at = this.offset() + i * this.strides[this.across] + (this.up ? j * this.strides[this.up] : 0);
    const places = [[this.across, i], ...(this.up ? [[this.up, j]] : []), ...(this.film ? [[this.along, state.time]] : [])];
    const text = [...places.map(([axis, k]) => `${axis} = ${niceNumber(this.points[axis][k])}`), `${state.quantity} = ${niceNumber(this.data[at], 5)}`].join(", ");
    if (element("readout").textContent !== text) element("readout").textContent = text;
  }

  draw() {
    const { across, up, along } = this;
    if (this.mapPanel) {
      const panel = this.mapPanel;
      panel.begin();
      panel.frame(across, up, ...[across, up].map((axis) => [this.points[axis][0], this.points[axis].at(-1)]));
      panel.map(this.data, this.points[across], this.points[up], this.strides[across], this.strides[up], this.offset(), this.scale);
      panel.bar(this.scale);
      element("map-title").textContent = this.film ? this.moment : `${state.quantity}(${this.names.filter((axis) => axis in this.strides && !(axis in this.fixed)).join(", ")})`;
      if (!this.film) {
        const c = panel.context, y = panel.toY(this.points[up][state.time]);
        for (const [colour, width] of [["rgba(255,255,255,.85)", 3.5], ["#1c2126", 1.2]]) {
          c.strokeStyle = colour; c.lineWidth = width;
          c.beginPath(); c.moveTo(panel.box.x, y); c.lineTo(panel.box.x + panel.box.width, y); c.stroke();
        }
      }
      if (state.cursor) cross(panel, this.points[across][state.cursor.i], this.points[up][state.cursor.j]);
    }
    if (this.linePanel) {
      const panel = this.linePanel, xs = this.points[across], step = this.strides[across];
      const start = this.offset() + (up ? state.time * this.strides[up] : 0), margin = 0.06 * (this.scale.upper - this.scale.lower);
      panel.begin();
      panel.frame(across, state.quantity, [xs[0], xs.at(-1)], [this.scale.lower - margin, this.scale.upper + margin], { grid: true });
      if (up && this.timed) panel.line(xs, this.data, { colour: style("--quiet"), width: 1.2, dashes: [4, 4], offset: this.offset(), step });
      panel.line(xs, this.data, { colour: style("--second"), width: 2.2, offset: start, step });
      if (state.cursor) panel.dots([xs[state.cursor.i]], [this.data[start + state.cursor.i * step]], style("--ink"), 4);
      const dashed = this.timed ? ` (dashed: ${along} = ${niceNumber(this.points[along][0])})` : "";
      element("line-title").textContent = up ? `${this.moment}${dashed}` : `${state.quantity}(${across})`;
    }
    if (!across) element("readout").textContent = `${state.quantity} = ${niceNumber(this.data[0], 6)}`;
    this.readOut();
  }
}

function showTime() {
  const text = niceNumber(view.points[view.along][state.time]);
  element("time-value").textContent = text;
  element("time").setAttribute("aria-valuetext", `${view.along} = ${text}`);
  saveState();
}

let playing = null;
function play(on) {
  const button = element("play");
  button.setAttribute("aria-pressed", String(on));
  button.setAttribute("aria-label", on ? "Pause" : "Play");
  button.textContent = on ? "❚❚" : "▶";
  if (!on) { playing = null; return; }
  const last = view.points[view.along].length - 1, from = state.time >= last ? 0 : state.time, began = performance.now(), mine = {};
  playing = mine;
  const frame = (now) => {
    if (playing !== mine) return;
    const i = Math.min(last, from + Math.floor(((now - began) / 4000) * last));
    if (i !== state.time) view.setTime(i);
    if (i >= last) play(false);
    else requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

// The state of the page in its address, so that a link shows what its sender saw.

function encode(values) {
  const size = Math.max(...statistic(values).map(Math.abs)) || 1, whole = new Int16Array(values.length);
  for (let i = 0; i < values.length; i++) whole[i] = Math.round((values[i] / size) * 32767);
  const text = btoa(Array.from(new Uint8Array(whole.buffer), (b) => String.fromCharCode(b)).join(""));
  return `${size.toPrecision(9)}~${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

function decode(text, count) {
  const [size, packed] = text.split("~"), bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const whole = new Int16Array(bytes.buffer);
  if (whole.length !== count || !Number.isFinite(Number(size))) throw new Error("another input");
  return Float32Array.from(whole, (v) => (v / 32767) * Number(size));
}

let saving = 0;
function saveState() {
  clearTimeout(saving);
  saving = setTimeout(() => { try { history.replaceState(null, "", address()); } catch { /* an address that can't be changed is no reason to stop */ } }, 300);
}

function address() {
  const parts = new URLSearchParams({ t: state.time, q: state.quantity, theme: document.documentElement.dataset.theme });
  for (const editor of editors) parts.set(`u.${editor.name}`, encode(editor.values));
  return `#${parts}`;
}

/** Whether the address had a state that could be read; what is not understood is ignored. */
function readState() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (["dark", "light"].includes(parts.get("theme"))) setTheme(parts.get("theme"));
  if (about.quantities.includes(parts.get("q"))) { state.quantity = parts.get("q"); element("quantity").value = state.quantity; }
  const time = Number(parts.get("t"));
  if (parts.has("t") && view.along && Number.isInteger(time) && time >= 0 && time < view.points[view.along].length) view.setTime(time);
  try {
    const found = editors.map((editor) => decode(parts.get(`u.${editor.name}`) ?? "", editor.size));
    editors.forEach((editor, i) => editor.load(found[i], 0));
    return editors.length > 0;
  } catch { return false; }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  if (view) { schedule(); saveState(); }
}

// Files.

function save(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const fileName = (suffix) => `${about.problem.toLowerCase()}.${suffix}`;

function csv() {
  const rows = [[...view.names, ...about.quantities].join(",")], total = product(view.sizes);
  const strides = stridesOf(view.sizes), columns = about.quantities.map((name) => operator.outputs[name].data);
  for (let n = 0; n < total; n++) {
    const places = view.names.map((axis, i) => view.points[axis][Math.floor(n / strides[i]) % view.sizes[i]]);
    rows.push([...places, ...columns.map((data) => data[n])].join(","));
  }
  return `${rows.join("\n")}\n`;
}

function picture() {
  const canvases = [...document.querySelectorAll("main canvas")], ratio = Math.min(window.devicePixelRatio || 1, 2), gap = 14 * ratio;
  const width = Math.max(...canvases.map((c) => c.width)) + 2 * gap;
  const height = canvases.reduce((sum, c) => sum + c.height + gap, gap + 46 * ratio);
  const whole = make("canvas", { width, height }), c = whole.getContext("2d");
  c.fillStyle = style("--paper"); c.fillRect(0, 0, width, height);
  c.fillStyle = style("--ink"); c.font = `600 ${16 * ratio}px system-ui, sans-serif`;
  c.fillText(about.title, gap, gap + 14 * ratio);
  c.font = `${13 * ratio}px Georgia, serif`;
  c.fillText(greek(about.equations.join("; ")), gap, gap + 36 * ratio);
  let y = gap + 46 * ratio;
  for (const canvas of canvases) { c.drawImage(canvas, gap, y); y += canvas.height + gap; }
  return whole;
}

function start() {
  element("title").textContent = about.title;
  element("equation").append(...typeset(about.equations.join("; ")));
  const constants = Object.entries(about.constants).map(([name, value]) => `${name} = ${typeof value === "number" ? niceNumber(value, 4) : value}`);
  element("constants").append(...typeset(constants.join(", ")));
  element("about").textContent = [`seponet ${about.seponet}`, about.trained && `trained ${about.trained}`, about.parameters && `${about.parameters} parameters`, "computed here: nothing is loaded or sent"].filter(Boolean).join(" · ");
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

  editors = program.inputs.map(({ name, shape }) => {
    const input = about.inputs[name], kinds = [SliderEditor, LineEditor, MapEditor];
    return new (kinds[input.axes.length] ?? StackEditor)(name, input, shape);
  });
  element("inputs").append(...editors.map((editor) => editor.element));
  if (!editors.length) { element("inputs").textContent = "This problem has no input: there is one solution."; element("chooser").hidden = true; }

  view = new SolutionView(element("views"));
  if (view.along) {
    element("time-row").hidden = false;
    element("time-label").textContent = view.along;
    Object.assign(element("time"), { max: String(view.points[view.along].length - 1), value: String(state.time) });
    element("time").addEventListener("input", () => { playing && play(false); view.setTime(element("time").valueAsNumber); });
    element("play").addEventListener("click", () => play(!playing));
    showTime();
  }
  if (about.quantities.length > 1) {
    element("quantity-label").hidden = false;
    element("quantity").append(...about.quantities.map((name) => make("option", { value: name, textContent: name })));
    element("quantity").addEventListener("change", () => { state.quantity = element("quantity").value; view.rescale(); schedule(); saveState(); });
  }
  const preset = element("preset");
  preset.append(make("option", { value: "", textContent: about.presets.length ? "choose …" : "none" }), ...about.presets.map(({ label, draw }) => make("option", { value: draw, textContent: label })));
  preset.addEventListener("change", () => { if (preset.value !== "") { remember(); useDraw(Number(preset.value)); } preset.value = ""; });
  preset.closest(".row").querySelector("label").hidden = preset.hidden = !about.presets.length;
  element("random").addEventListener("click", () => { remember(); useDraw(Math.floor(Math.random() * drawCount)); });
  element("undo").addEventListener("click", undo);
  element("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  element("csv").addEventListener("click", () => save(new Blob([csv()], { type: "text/csv" }), fileName("csv")));
  element("png").addEventListener("click", () => picture().toBlob((blob) => save(blob, fileName("png"))));
  element("link").addEventListener("click", async () => {
    history.replaceState(null, "", address());
    let text = "Link copied";
    try { await navigator.clipboard.writeText(location.href); } catch { text = "The address bar has the link"; }
    element("link").textContent = text;
    setTimeout(() => { element("link").textContent = "Copy link"; }, 2000);
  });
  addEventListener("keydown", (event) => { if ((event.ctrlKey || event.metaKey) && event.key === "z") { event.preventDefault(); undo(); } });
  new ResizeObserver(schedule).observe(document.querySelector("main"));
  if (!readState() && drawCount) useDraw(about.presets.find(({ label }) => label === "Typical")?.draw ?? 0);
  addEventListener("hashchange", () => { if (readState()) changed(); });
  update();
}

start();

// For those who embed or test the page: set values at the sensors, read fields, and measure.
window.explorer = {
  set(name, values) { editors.find((editor) => editor.name === name).load(Float32Array.from(values), 0); dirty = true; update(); return timing; },
  values(name) { return Array.from(state.values[name]); },
  field(name) { return Array.from(operator.outputs[name].data); },
  names: () => Object.keys(operator.outputs),
  timing: () => ({ ...timing }),
  state: () => ({ time: state.time, quantity: state.quantity, theme: document.documentElement.dataset.theme }),
};
