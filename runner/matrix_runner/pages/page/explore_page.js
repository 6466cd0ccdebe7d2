// The page: controls, drags over charts, the table, and what it saves.

const ROWS = 100;
const element = (id) => document.getElementById(id);
const charts = new Map();
let current = null; // the result of select()
let rows = ROWS;
let written = ""; // the fragment that the page itself wrote

function make(tag, properties, ...children) {
  const one = Object.assign(document.createElement(tag), properties);
  one.append(...children);
  return one;
}

// ---- drawing ----

function drawChart(name) {
  const box = element(name);
  const colours = look();
  const view = VIEWS[name](box.clientWidth, current, colours);
  box.style.height = `${view.height}px`;
  let chart = charts.get(name)?.chart;
  if (!chart) {
    chart = echarts.init(box, null, { renderer: "canvas" });
    drags(box, name);
  }
  charts.set(name, { chart, ...view });
  if (chart.getWidth() !== box.clientWidth || chart.getHeight() !== view.height) chart.resize();
  chart.setOption(view.option, { notMerge: true });
  element(`about-${name}`).textContent = view.about;
  const heading = box.closest("section").querySelector("h2").textContent;
  box.setAttribute("aria-label", `${heading}. ${view.about} The table has the same trials.`);
}

function drawAll() {
  current = select();
  for (const name of Object.keys(VIEWS)) drawChart(name);
  drawTable();
  drawChips();
  const { length } = current.selected;
  element("count").textContent = `${length.toLocaleString("en")} of ${COUNT.toLocaleString("en")} trials selected`;
  const text = toFragment();
  if (text !== written) {
    written = text;
    try {
      history.replaceState(null, "", `#${text}`);
    } catch {
      location.replace(`#${text}`); // some browsers refuse the other for files
    }
  }
}

function update() {
  rows = ROWS;
  drawAll();
  drawEditor();
}

// ---- drags ----

function drags(box, name) {
  let start = null;
  let band = null;
  const point = (event) => {
    const at = box.getBoundingClientRect();
    return [event.clientX - at.left, event.clientY - at.top];
  };
  box.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch") return;
    start = point(event);
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    if (!start) return;
    const [x, y] = point(event);
    band ||= box.appendChild(make("div", { className: "band" }));
    Object.assign(band.style, {
      left: `${Math.min(x, start[0])}px`, top: `${Math.min(y, start[1])}px`,
      width: `${Math.abs(x - start[0])}px`, height: `${Math.abs(y - start[1])}px`,
    });
  });
  const end = (event) => {
    const from = start;
    start = null;
    band?.remove();
    band = null;
    if (from && event.type === "pointerup") brush(name, from, point(event));
  };
  box.addEventListener("pointerup", end);
  box.addEventListener("pointercancel", end);
}

// Selects by a drag from one point of a chart to another. A click removes the filters of the chart, or selects a cell.
function brush(name, from, to) {
  const { chart, brush: how } = charts.get(name);
  const isClick = Math.hypot(to[0] - from[0], to[1] - from[1]) < 4;
  if (how.kind === "parallel") {
    brushParallel(chart, how, from, to, isClick);
  } else {
    const count = chart.getOption().grid.length;
    const grid = Array.from({ length: count }, (_, at) => at).find((at) => chart.containPixel({ gridIndex: at }, from));
    if (grid === undefined) return;
    const [one, other] = [from, to].map((pixel) => chart.convertFromPixel({ gridIndex: grid }, pixel));
    const names = [how.x, how.y].filter(Boolean);
    if (isClick && name !== "heat") names.forEach((axisName) => setFilter(axisName, null));
    else if (isClick && names.every((axisName) => state.filters.has(axisName))) names.forEach((axisName) => setFilter(axisName, null));
    else if (how.kind === "bins") setRange(how.x, how.edge(Math.min(one[0], other[0])), how.edge(Math.max(one[0], other[0]) + 1));
    else names.forEach((axisName) => setRange(axisName, one[axisName === how.x ? 0 : 1], other[axisName === how.x ? 0 : 1]));
  }
  update();
}

function brushParallel(chart, { names, upright }, from, to, isClick) {
  const system = chart.getModel().getComponent("parallel").coordinateSystem;
  const [along, beside] = upright ? [0, 1] : [1, 0];
  const places = system.dimensions.map((dim) => system.getAxisLayout(dim).position);
  const distances = places.map((place) => Math.abs(place[beside] - from[beside]));
  const at = distances.indexOf(Math.min(...distances));
  if (isClick) {
    setFilter(names[at], null);
    return;
  }
  const start = places[at][along];
  const scale = system.getAxis(system.dimensions[at]);
  const value = (pixel) => scale.coordToData(upright ? pixel[along] - start : start - pixel[along], true);
  setRange(names[at], value(from), value(to));
}

// ---- controls ----

function option(name) {
  return make("option", { value: name, textContent: name ? name : "none" });
}

function prepareControls() {
  for (const [key, choice] of Object.entries(CHOICES)) {
    const fitting = [...(choice.optional ? [""] : []), ...[...DIMENSIONS.keys()].filter((name) => fits(name, choice))];
    element(key).append(...fitting.map(option));
    element(key).addEventListener("change", (event) => {
      state[key] = event.target.value;
      update();
    });
  }
  element("log").addEventListener("change", (event) => {
    state.log = event.target.checked;
    update();
  });
  element("dimension").append(option(""), ...[...DIMENSIONS.keys()].map(option));
  element("dimension").addEventListener("change", drawEditor);
  for (const name of DIMENSIONS.keys()) {
    const box = make("input", { type: "checkbox", value: name });
    box.addEventListener("change", chooseAxes);
    element("axes").append(make("label", {}, box, name));
  }
  element("more").addEventListener("click", () => {
    rows += ROWS;
    drawTable();
  });
  element("csv").addEventListener("click", () => save("trials.csv", "text/csv", csv()));
  for (const button of document.querySelectorAll("[data-export]")) {
    const name = button.dataset.export;
    button.addEventListener("click", () => save(`${name}.svg`, "image/svg+xml", svg(name)));
  }
}

function showState() {
  for (const key of Object.keys(CHOICES)) element(key).value = state[key];
  element("log").checked = state.log;
  for (const box of element("axes").querySelectorAll("input")) box.checked = state.axes.includes(box.value);
}

function chooseAxes(event) {
  const chosen = [...element("axes").querySelectorAll("input:checked")].map((box) => box.value);
  if (chosen.length < 2) {
    event.target.checked = true;
    return;
  }
  state.axes = chosen;
  update();
}

// The filter of one dimension, to set by keyboard.
function drawEditor() {
  const dimension = DIMENSIONS.get(element("dimension").value);
  const filter = dimension && state.filters.get(dimension.name);
  const wanted = JSON.stringify([dimension?.name, filter?.codes ? [...filter.codes] : filter]);
  if (element("editor").dataset.shows === wanted) return; // keep the focus
  const active = document.activeElement?.value;
  element("editor").dataset.shows = wanted;
  element("editor").replaceChildren(...(dimension ? [dimension.isText ? valueBoxes(dimension, filter) : boundBoxes(dimension, filter)] : []));
  [...element("editor").querySelectorAll("input[type=checkbox]")].find((box) => box.value === active)?.focus();
}

function valueBoxes(dimension, filter) {
  const boxes = dimension.values.slice(0, MOST_VALUES).map((value, code) => {
    const box = make("input", { type: "checkbox", value: String(code), checked: Boolean(filter?.codes.has(code)) });
    box.addEventListener("change", () => {
      const codes = new Set(state.filters.get(dimension.name)?.codes);
      if (box.checked) codes.add(code);
      else codes.delete(code);
      setFilter(dimension.name, { codes });
      update();
    });
    return make("label", {}, box, value);
  });
  const count = dimension.values.length > MOST_VALUES ? `, the first ${MOST_VALUES} of ${dimension.values.length}` : "";
  return make("fieldset", {}, make("legend", { textContent: `Only these values of ${dimension.name}${count}` }), ...boxes);
}

function boundBoxes(dimension, filter) {
  const bound = (key, initial, text) => {
    const known = filter && Number.isFinite(filter[key]) ? String(filter[key] / dimension.factor) : "";
    const box = make("input", { type: "text", inputMode: "decimal", size: 12, value: known });
    box.addEventListener("change", () => {
      const number = box.value.trim() === "" ? initial : Number(box.value) * dimension.factor;
      if (Number.isNaN(number)) return;
      const { low, high } = state.filters.get(dimension.name) || { low: -Infinity, high: Infinity };
      setFilter(dimension.name, { low, high, [key]: number });
      update();
    });
    return make("label", {}, text, box);
  };
  const legend = make("legend", { textContent: `Only ${label(dimension)}` });
  return make("fieldset", {}, legend, bound("low", -Infinity, "from"), bound("high", Infinity, "to"));
}

function drawChips() {
  const chips = [...state.filters].map(([name, filter]) => {
    const text = describe(name, filter);
    const chip = make("button", { type: "button", textContent: `${text.length > 120 ? `${text.slice(0, 119)}…` : text} ✕` });
    chip.setAttribute("aria-label", `Remove the filter ${text}`);
    chip.addEventListener("click", () => {
      setFilter(name, null);
      update();
    });
    return chip;
  });
  if (chips.length > 1) {
    const all = make("button", { type: "button", textContent: "Remove all" });
    all.addEventListener("click", () => {
      state.filters.clear();
      update();
    });
    chips.push(all);
  }
  element("chips").replaceChildren(...chips);
}

// ---- table ----

const columns = () => [...new Set([...state.axes.filter(isText), "trial", "state", "reason", state.metric, state.x, state.y, ...state.axes])].filter((name) => DIMENSIONS.has(name));

function sorted() {
  const name = state.sort.replace(/^-/, "");
  if (!name) return current.selected;
  const dimension = DIMENSIONS.get(name);
  const sign = state.sort.startsWith("-") ? -1 : 1;
  const key = (i) => position(dimension, i);
  const rank = (i) => (Number.isNaN(key(i)) ? Infinity : sign * key(i)); // trials without the figure are last
  return Int32Array.from(current.selected).sort((one, other) => rank(one) - rank(other) || one - other);
}

function drawTable() {
  const shown = columns().map((name) => DIMENSIONS.get(name));
  const table = document.querySelector("table");
  const head = shown.map((one) => {
    const button = make("button", { type: "button", textContent: label(one) });
    const way = state.sort === one.name ? "ascending" : state.sort === `-${one.name}` ? "descending" : "none";
    button.addEventListener("click", () => {
      state.sort = way === "none" ? `-${one.name}` : way === "descending" ? one.name : "";
      drawAll();
      document.querySelectorAll("thead button")[shown.indexOf(one)].focus();
    });
    if (way !== "none") button.append(way === "ascending" ? " ▲" : " ▼");
    const cell = make("th", { scope: "col", className: one.isText ? "" : "number" }, button);
    cell.setAttribute("aria-sort", way);
    return cell;
  });
  table.tHead.replaceChildren(make("tr", {}, make("th", { scope: "col", textContent: "cell" }), ...head));
  const trials = sorted().subarray(0, rows);
  table.tBodies[0].replaceChildren(...Array.from(trials, (i) => row(i, shown)));
  element("more").hidden = current.selected.length <= rows;
  element("about-table").textContent = `${trials.length.toLocaleString("en")} of ${current.selected.length.toLocaleString("en")} selected trials. Save as CSV has all of them, with all figures in base units.`;
}

function row(i, shown) {
  const name = DATA.names[CELL[i]];
  const link = linkTo(CELL[i]);
  const title = link ? make("a", { href: link, textContent: name }) : name;
  const cells = shown.map((one) => make("td", { className: one.isText ? "" : "number", textContent: show(one, i) }));
  return make("tr", {}, make("th", { scope: "row", title: name }, title), ...cells);
}

// ---- what it saves ----

function csv() {
  const isNumber = (text) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);
  const safe = (text) => (/^[=+\-@\t\r]/.test(text) && !isNumber(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const field = (text) => quoted(safe(text));
  const all = [...DIMENSIONS.values()];
  const value = (one, i) => {
    if (one.isText) return one.values[one.codes[i]] === NONE ? "" : one.values[one.codes[i]];
    return Number.isNaN(one.numbers[i]) ? "" : String(one.numbers[i]);
  };
  const lines = [["name", ...all.map((one) => one.name), "synthetic"]];
  for (const i of sorted()) lines.push([DATA.names[CELL[i]], ...all.map((one) => value(one, i)), String(DATA.runs[RUN[CELL[i]]].synthetic)]);
  return `${lines.map((line) => line.map(field).join(",")).join("\n")}\n`;
}

function svg(name) {
  const { option: shown, height, about } = charts.get(name);
  const width = element(name).clientWidth;
  const filters = [...state.filters].map(([of, filter]) => describe(of, filter));
  const warning = SYNTHETIC ? ["SYNTHETIC: not measured"] : [];
  const text = [...warning, DATA.title, about, ...filters].join(" · ");
  const caption = {
    text, left: 8, top: height + 4,
    textStyle: { fontSize: 11, fontWeight: 400, color: look().text, width: width - 16, overflow: "break" },
  };
  const chart = echarts.init(null, null, { renderer: "svg", ssr: true, width, height: height + 64 });
  chart.setOption({ ...shown, backgroundColor: look().ground, title: [...(shown.title || []), caption] });
  if (shown.parallel) chart.setOption({ parallel: { bottom: shown.parallel.bottom + 64 } });
  const text_ = chart.renderToSVGString();
  chart.dispose();
  return text_;
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: `${SYNTHETIC ? "synthetic-" : ""}${DATA.file}-${name}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// ---- start ----

function readAddress() {
  fromFragment(location.hash.slice(1));
  showState();
  update();
}

if (typeof echarts === "undefined") {
  element("missing").hidden = false; // the page was copied without the library of its folder
} else if (COUNT && FIGURES.length) {
  prepareControls();
  readAddress();
  addEventListener("hashchange", () => {
    if (location.hash.slice(1) !== written) readAddress();
  });
  dark.addEventListener("change", drawAll);
  let width = document.documentElement.clientWidth;
  addEventListener("resize", () => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    drawAll();
  });
} else {
  element("count").textContent = "No trial has a figure yet.";
}
