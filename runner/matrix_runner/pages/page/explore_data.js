// The trials as columns, the filters on them, and their state in the address.

const DATA = JSON.parse(document.getElementById("data").textContent);
document.getElementById("data").remove();
const COUNT = DATA.count;
const NONE = "–";

function decode(text, Kind) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Kind(bytes.buffer);
}

const CELL = decode(DATA.cell, Int32Array);
const RUN = decode(DATA.run, Int32Array); // of a cell
const SYNTHETIC = DATA.runs.some((run) => run.synthetic);

function linkTo(cell) {
  const { folder } = DATA.runs[RUN[cell]];
  return folder === null ? "" : `./${folder}cells/${DATA.names[cell].split("/").map(encodeURIComponent).join("/")}/`;
}

// A pseudo-random number for each trial: if too many are selected, a view draws those with the smallest numbers. So the
// choice is even, and stays the same while filters change.
const LOT = Uint32Array.from({ length: COUNT }, (_, i) => {
  let mixed = Math.imul(i + 1, 0x9e3779b1);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
});

// A dimension is text (codes of values) or a figure (numbers; NaN without one).
const TEXTS = [
  ...DATA.axes.map((axis) => {
    const ofCell = decode(axis.codes, Int32Array);
    return { ...axis, codes: Int32Array.from(CELL, (cell) => ofCell[cell]) };
  }),
  ...DATA.texts.map((text) => ({ ...text, codes: decode(text.codes, Int32Array) })),
].map((text) => ({ ...text, isText: true, values: text.values.map((value) => value || NONE) }));

const STEPS = {
  "bytes/s": [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]],
  ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
  share: [[0.01, "%"]],
  "1/s": [[1, "per s"]],
};

const FIGURES = DATA.figures.map((figure) => {
  const numbers = decode(figure.numbers, Float64Array);
  const known = numbers.filter((one) => !Number.isNaN(one)).sort();
  const middle = Math.abs(known[known.length >> 1]);
  const steps = STEPS[figure.unit] || [[1, figure.unit]];
  const [factor, unit] = steps.find(([step]) => middle >= step) || steps[steps.length - 1];
  return { name: figure.name, numbers, factor, unit, least: known[0], most: known[known.length - 1] };
});

DATA.figures = null; // the encoded numbers take much memory

const DIMENSIONS = new Map([...TEXTS, ...FIGURES].map((one) => [one.name, one]));
const isText = (name) => Boolean(DIMENSIONS.get(name)?.isText);
const label = (dimension) => (dimension.unit ? `${dimension.name} (${dimension.unit})` : dimension.name);

const FORMATS = Array.from({ length: 7 }, (_, places) => new Intl.NumberFormat("en", { maximumFractionDigits: places }));

/** Three digits, or up to five if `apart`, a difference that has to be visible, needs them. */
function digits(number, apart = 0) {
  if (!Number.isFinite(number)) return "";
  if (number === 0) return "0";
  const before = Math.ceil(Math.log10(Math.abs(number)));
  const needed = apart > 0 ? Math.min(Math.ceil(-Math.log10(apart)), 5 - before) : 0;
  const places = Math.max(0, Math.min(6, Math.max(needed, 3 - before)));
  return FORMATS[places].format(number);
}

const show = (dimension, at) =>
  dimension.isText ? dimension.values[dimension.codes[at]] : digits(dimension.numbers[at] / dimension.factor);

// ---- filters ----

const CHOICES = {
  metric: { of: "figure", initial: DATA.metric },
  x: { of: "any", initial: DATA.metric },
  y: { of: "any", initial: DATA.tail },
  across: { of: "text", initial: DATA.across },
  down: { of: "text", initial: DATA.down, optional: true },
  colour: { of: "text", initial: DATA.colour, optional: true },
  facet: { of: "text", initial: "", optional: true },
};
const state = { log: false, sort: "", filters: new Map() };

function fits(name, choice) {
  if (name === "") return Boolean(choice.optional);
  const found = DIMENSIONS.get(name);
  return Boolean(found) && (choice.of === "any" || (choice.of === "text") === Boolean(found.isText));
}

// Returns the indices of all trials that the filters leave.
function select() {
  const left = new Uint8Array(COUNT).fill(1);
  for (const [name, filter] of state.filters) {
    const { codes, numbers } = DIMENSIONS.get(name);
    if (codes) {
      for (let i = 0; i < COUNT; i++) if (!filter.codes.has(codes[i])) left[i] = 0;
    } else {
      const { low, high } = filter;
      for (let i = 0; i < COUNT; i++) if (!(numbers[i] >= low && numbers[i] <= high)) left[i] = 0;
    }
  }
  let count = 0;
  for (let i = 0; i < COUNT; i++) count += left[i];
  const selected = new Int32Array(count);
  for (let i = 0, at = 0; i < COUNT; i++) if (left[i]) selected[at++] = i;
  return { left, selected };
}

// Returns about `most` of the trials, chosen at random, without those that do not pass.
function draw(trials, most, passes) {
  const bound = trials.length > most ? (most / trials.length) * 2 ** 32 : 2 ** 32;
  const drawn = [];
  for (let k = 0; k < trials.length; k++) {
    const i = trials[k];
    if (LOT[i] < bound && passes(i)) drawn.push(i);
  }
  return drawn;
}

const ALL = Int32Array.from({ length: COUNT }, (_, i) => i);

function describe(name, filter) {
  const dimension = DIMENSIONS.get(name);
  if (dimension.isText) return `${name}: ${[...filter.codes].map((code) => dimension.values[code]).join(", ")}`;
  const [low, high] = [filter.low, filter.high].map((bound) => digits(bound / dimension.factor));
  return `${name}: ${low || "any"} to ${high || "any"} ${dimension.unit}`;
}

function setFilter(name, filter) {
  const empty = !filter || (filter.codes ? !filter.codes.size : filter.low === -Infinity && filter.high === Infinity);
  if (empty) state.filters.delete(name);
  else state.filters.set(name, filter);
}

// Sets the filter of a dimension from two positions on an axis of a chart, as drawn.
function setRange(name, one, other) {
  const dimension = DIMENSIONS.get(name);
  const [low, high] = one < other ? [one, other] : [other, one];
  if (dimension.isText) {
    const codes = dimension.values.map((_, code) => code).filter((code) => code >= low - 0.5 && code <= high + 0.5);
    setFilter(name, { codes: new Set(codes) });
  } else {
    setFilter(name, { low: low * dimension.factor, high: high * dimension.factor });
  }
}

// ---- the address ----

function toFragment() {
  const parts = new URLSearchParams();
  for (const [key, choice] of Object.entries(CHOICES)) if (state[key] !== choice.initial) parts.set(key, state[key]);
  if (state.log) parts.set("log", "yes");
  if (state.sort) parts.set("sort", state.sort);
  if (state.axes.join() !== DATA.parallel.join()) state.axes.forEach((axis) => parts.append("axis", axis));
  for (const [name, filter] of state.filters) {
    if (filter.codes) filter.codes.forEach((code) => parts.append(`in:${name}`, DIMENSIONS.get(name).values[code]));
    else parts.set(`range:${name}`, `${filter.low}..${filter.high}`);
  }
  return parts.toString();
}

function fromFragment(text) {
  const parts = new URLSearchParams(text);
  for (const [key, choice] of Object.entries(CHOICES)) {
    const wanted = parts.get(key);
    state[key] = wanted !== null && fits(wanted, choice) ? wanted : choice.initial;
  }
  state.log = parts.get("log") === "yes";
  state.sort = DIMENSIONS.has((parts.get("sort") || "").replace(/^-/, "")) ? parts.get("sort") : "";
  const axes = [...new Set(parts.getAll("axis"))].filter((name) => DIMENSIONS.has(name));
  state.axes = axes.length > 1 ? axes : DATA.parallel;
  state.filters.clear();
  for (const [key, value] of parts) {
    const [kind, name] = [key.slice(0, key.indexOf(":")), key.slice(key.indexOf(":") + 1)];
    const dimension = DIMENSIONS.get(name);
    if (kind === "in" && dimension?.isText && dimension.values.includes(value)) {
      const known = state.filters.get(name)?.codes || new Set();
      state.filters.set(name, { codes: known.add(dimension.values.indexOf(value)) });
    } else if (kind === "range" && dimension && !dimension.isText) {
      const [low, high] = value.split("..").map(Number);
      if (low <= high) setFilter(name, { low, high });
    }
  }
}
