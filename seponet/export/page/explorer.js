"use strict";
// The page: what is computed when something changes, the state that a link carries, files, and the start of it all.

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

/** How far an input is outside, in words: a number with many digits would say no more. */
function beyond(score) {
  if (!(score < 1000)) return "by far";
  return score < 1.05 ? "just" : `${niceNumber(score, 2)} times the usual range`;
}

/** An error in words: far beyond the solution itself its digits mean nothing. */
const errorText = (x) => (x > 1 ? "more than 100 %" : percent(x));

/** The error and whether the input is like those that were trained on, in words. */
function tell() {
  const { error, upper_95, score } = operator.outputs, outside = score && !(score.data[0] <= 1), line = element("error");
  const warning = element("warning"), folded = Boolean(view.shape?.folded);
  const broken = about.fields.some((name) => !operator.outputs[name].data.every(Number.isFinite));
  if (outside || folded || broken) {
    let text = `This input is outside of what the operator was trained on (${outside ? beyond(score.data[0]) : ""}). The solution may be wrong, and an error estimate would be a guess.`;
    if (folded) text = "The shape crosses itself: there is no solution on it.";
    if (broken) text = "The operator gives no finite solution for this input, which is outside of what it was trained on.";
    if (warning.dataset.text !== text) {
      warning.dataset.text = text;
      warning.textContent = `⚠ ${text} `;
      if (inputNames.some((name) => operator.outputs[`nearest:${name}`])) {
        warning.append(make("button", { type: "button", textContent: "Nearest usual input", onclick: pullInside }));
      }
    }
  }
  warning.hidden = !outside && !folded && !broken;
  line.textContent = "";
  if (folded || broken) return;
  if (error && !Number.isFinite(error.data[0])) {
    line.append("No error estimate for this input: its residual has no finite value.");
  } else if (error && !outside) {
    line.append("Estimated relative L² error ", make("b", { textContent: errorText(error.data[0]) }), `; in 95 % of cases below ${percent(upper_95.data[0])}.`);
  } else if (error) {
    line.append("Relative L² error, guessed from the residual: ", make("b", { textContent: errorText(error.data[0]) }), "; not calibrated for such inputs.");
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
  const mapped = Object.keys(about.places ?? {}), rows = [[...view.names, ...mapped, ...about.quantities].join(",")], total = product(view.sizes);
  const strides = stridesOf(view.sizes), columns = about.quantities.map((name) => operator.outputs[name].data);
  const located = mapped.map((name) => operator.outputs[`place:${name}`]), along = located.map((output) => Object.values(view.stridesIn(output)));
  for (let n = 0; n < total; n++) {
    const index = view.names.map((_, i) => Math.floor(n / strides[i]) % view.sizes[i]);
    const places = view.names.map((axis, i) => view.points[axis][index[i]]);
    const coordinates = located.map(({ data }, k) => data[index.reduce((sum, at, i) => sum + at * along[k][i], 0)]);
    rows.push([...places, ...coordinates, ...columns.map((data) => data[n])].join(","));
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
    element("time-label").textContent = greek(view.along);
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
