"use strict";
// The view of the solution: maps, cuts, films, and what the pointer tells.

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
    // A map puts the points of the box elsewhere. Where it bends more than the plane that is shown, as a surface in
    // space, the axes stay those of the box, and only the read-out tells where a point is.
    this.physical = Object.fromEntries(Object.entries(about.places ?? {}).map(([name, { replaces }]) => [replaces, name]));
    const bent = Object.keys(this.physical);
    this.placed = bent.length > 0 && bent.every((axis) => axis === this.across || axis === this.up);
    if (this.up) {
      this.mapPanel = new Panel("Map of the solution", 0.62, { left: 54, right: 66, top: 10, bottom: 36 });
      this.mapPanel.canvas.id = "solution-map";
      this.shape = this.placed ? new Shape() : null;
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

  get moment() { return `${state.quantity} at ${greek(this.along)} = ${niceNumber(this.points[this.along][state.time])}`; }
  get data() { return operator.outputs[state.quantity].data; }

  rescale() { this.scale = scaleOf(this.data); }

  offset(strides = this.strides) {
    let at = this.film ? state.time * strides[this.along] : 0;
    for (const [axis, i] of Object.entries(this.fixed)) at += i * strides[axis];
    return at;
  }

  /** What an axis of the plane is called where it is drawn. */
  label(axis) { return greek(this.placed ? this.physical[axis] ?? axis : axis); }

  /** Strides of a coordinate of the map, which has size one along axes that it does not change with. */
  stridesIn(output) {
    const all = stridesOf(output.shape);
    return Object.fromEntries(this.names.map((axis, k) => [axis, output.shape[k] > 1 ? all[k] : 0]));
  }

  /** A coordinate of the plane as a function of (i, j): what the map makes of an axis, or the axis itself. */
  coordinate(axis, mapped = this.placed) {
    const name = this.physical[axis];
    if (mapped && name) {
      const output = operator.outputs[`place:${name}`], strides = this.stridesIn(output), start = this.offset(strides);
      const a = strides[this.across], b = this.up ? strides[this.up] : 0;
      return (i, j = 0) => output.data[start + i * a + j * b];
    }
    const points = this.points[axis];
    if (axis === this.across) return (i) => points[i];
    return axis === this.up ? (i, j = 0) => points[j] : () => points[state.time];
  }

  /** The range of an axis in the frame. A shape that is drawn keeps its frame until it leaves it. */
  range(axis) {
    const name = this.physical[axis];
    if (!this.placed || !name) return [this.points[axis][0], this.points[axis].at(-1)];
    const [lower, upper] = about.places[name].extent, [least, most] = statistic(operator.outputs[`place:${name}`].data);
    const range = [Math.min(lower, least), Math.max(upper, most)], margin = 0.03 * (range[1] - range[0]);
    return [range[0] - margin, range[1] + margin];
  }

  /** Where the points of a cut are along it: a coordinate, or if the cut bends, the distance from its beginning. */
  abscissa(j) {
    const count = this.points[this.across].length, x = this.coordinate(this.across);
    if (!this.bends) return Float64Array.from({ length: count }, (_, i) => x(i, j));
    const y = this.coordinate(this.up), along = new Float64Array(count);
    for (let i = 1; i < count; i++) along[i] = along[i - 1] + Math.hypot(x(i, j) - x(i - 1, j), y(i, j) - y(i - 1, j));
    return along;
  }

  get bends() { return this.placed && this.across in this.physical && this.up in this.physical; }

  /** Pointer and arrow keys choose a point, whose value is told. */
  watch(panel, isMap) {
    const { canvas } = panel;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `${canvas.getAttribute("aria-label")}: arrows move the point whose value is told`);
    const nearest = (points, v) => points.reduce((best, p, i, all) => (Math.abs(p - v) < Math.abs(all[best] - v) ? i : best), 0);
    const find = (event) => {
      if (isMap && this.shape) return this.shape.at(panel, event);
      const { x, y, inside } = panel.at(event);
      if (!inside) return null;
      if (isMap) return { i: nearest(this.points[this.across], x), j: nearest(this.points[this.up], y) };
      const j = this.up ? state.time : 0;
      return { i: nearest(this.abscissa(j), x), j };
    };
    const choose = (event) => {
      const found = find(event);
      if (!found) return;
      state.cursor = found;
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

  /** The coordinates of the cursor, where it is, and the value there. */
  readOut() {
    if (!state.cursor || !this.across) return;
    const { i, j } = state.cursor;
    const at = this.offset() + i * this.strides[this.across] + (this.up ? j * this.strides[this.up] : 0);
    const shown = [this.across, ...(this.up ? [this.up] : []), ...(this.film ? [this.along] : [])];
    const axes = this.placed || !about.places ? shown : this.names.filter((axis) => shown.includes(axis));
    const places = axes.map((axis) => `${greek(this.physical[axis] ?? axis)} = ${niceNumber(this.coordinate(axis, true)(i, j))}`);
    const text = [...places, `${state.quantity} = ${niceNumber(this.data[at], 5)}`].join(", ");
    if (element("readout").textContent !== text) element("readout").textContent = text;
  }

  draw() {
    if (this.mapPanel) this.drawMap();
    if (this.linePanel) this.drawCut();
    if (!this.across) element("readout").textContent = `${state.quantity} = ${niceNumber(this.data[0], 6)}`;
    this.readOut();
  }

  drawMap() {
    const { across, up, mapPanel: panel } = this, ranges = [across, up].map((axis) => this.range(axis));
    const [x, y] = [across, up].map((axis) => this.coordinate(axis)), counts = [across, up].map((axis) => this.points[axis].length);
    panel.ratio = across !== "t" && up !== "t" ? shownRatio(...ranges) : null;
    panel.begin();
    panel.frame(this.label(across), this.label(up), ...ranges);
    const a = this.strides[across], b = this.strides[up], start = this.offset(), { data } = this;
    if (this.shape) {
      this.shape.draw(panel, counts, x, y, (i, j) => data[start + i * a + j * b], this.scale);
      this.outline(panel, counts, x, y);
    } else panel.map(data, this.points[across], this.points[up], a, b, start, this.scale);
    panel.bar(this.scale);
    const shown = this.names.filter((axis) => !(axis in this.fixed)).map((axis) => this.label(axis));
    element("map-title").textContent = this.film ? this.moment : `${state.quantity}(${shown.join(", ")})`;
    const strokes = [["rgba(255,255,255,.85)", 3.5], ["#1c2126", 1.2]];
    if (!this.film) curve(panel, counts[0], (i) => x(i, state.time), (i) => y(i, state.time), strokes);
    if (state.cursor) cross(panel, x(state.cursor.i, state.cursor.j), y(state.cursor.i, state.cursor.j));
  }

  /** The boundary of a shape. Where a periodic axis closes, there is none. */
  outline(panel, [ni, nj], x, y) {
    const strokes = [[style("--ink"), 1.2]];
    if (!about.axes[this.across].periodic) for (const i of [0, ni - 1]) curve(panel, nj, (j) => x(i, j), (j) => y(i, j), strokes);
    if (!about.axes[this.up].periodic) for (const j of [0, nj - 1]) curve(panel, ni, (i) => x(i, j), (i) => y(i, j), strokes);
  }

  /** The boundary over the map of an input that is a function of the same coordinates. */
  wall(panel, axes) {
    if (!this.placed || axes.some((axis, k) => axis !== [this.across, this.up].map((a) => this.physical[a] ?? a)[k])) return;
    const counts = [this.across, this.up].map((axis) => this.points[axis].length);
    this.outline(panel, counts, this.coordinate(this.across), this.coordinate(this.up));
  }

  drawCut() {
    const { across, up, along, linePanel: panel } = this, step = this.strides[across], row = up ? state.time : 0;
    const xs = this.abscissa(row), start = this.offset() + (up ? row * this.strides[up] : 0), margin = 0.06 * (this.scale.upper - this.scale.lower);
    const name = this.bends ? "distance along the cut" : this.label(across), range = this.bends ? [0, xs.at(-1)] : this.range(across);
    panel.begin();
    panel.frame(name, state.quantity, range, [this.scale.lower - margin, this.scale.upper + margin], { grid: true });
    if (up && this.timed) panel.line(this.abscissa(0), this.data, { colour: style("--quiet"), width: 1.2, dashes: [4, 4], offset: this.offset(), step });
    panel.line(xs, this.data, { colour: style("--second"), width: 2.2, offset: start, step });
    if (state.cursor && (!this.bends || state.cursor.j === row)) panel.dots([xs[state.cursor.i]], [this.data[start + state.cursor.i * step]], style("--ink"), 4);
    const dashed = this.timed ? ` (dashed: ${along} = ${niceNumber(this.points[along][0])})` : "";
    element("line-title").textContent = up ? `${this.moment}${dashed}` : `${state.quantity}(${this.label(across)})`;
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
