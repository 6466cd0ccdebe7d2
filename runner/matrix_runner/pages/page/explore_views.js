// The charts. Each view has a function that returns its option for ECharts, and the axes on which a drag selects.

const MOST_LINES = 300; // of the parallel axes
const MOST_POINTS = 4000; // of the scatter
const MOST_REST = 800; // points outside of the selection, drawn as background
const LAYERS = 4; // of the scatter
const MOST_COLOURS = 8;
const MOST_FACETS = 9;
const BINS = 40;
const MOST_VALUES = 100; // of an axis of the heat map
const KINDS_OF_WORK = ["workload", "workload.rw"];
const LABELLED = 240; // a heat map with more cells has no numbers in them
const PALETTE = {
  light: ["#0b57a4", "#a03c00", "#00705a", "#8a2a77", "#6b6000", "#2d6f9e", "#b01030", "#4b4b4b"],
  dark: ["#7cb7ff", "#ffb27a", "#5fd3b0", "#f09ade", "#dccb4b", "#9fd8ff", "#ff8f9e", "#c9c9c9"],
};
const dark = matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function look() {
  return {
    text: css("text"), faint: css("faint"), rule: css("rule"), rest: css("rest"), ground: css("ground"),
    low: css("low"), high: css("high"), colours: PALETTE[dark.matches ? "dark" : "light"],
  };
}

// Keeps both ends: names of runs differ at their end.
function shorten(text, most) {
  if (text.length <= most) return text;
  const end = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, most - 1 - end)}…${text.slice(-end)}`;
}

// ---- groups of trials: by colour, by facet ----

function groupsOf(name, most) {
  const dimension = DIMENSIONS.get(name);
  if (!dimension) return { names: [""], of: () => 0 };
  const { codes, values } = dimension;
  if (values.length <= most) return { names: values, of: (i) => codes[i] };
  return { names: [...values.slice(0, most - 1), "other"], of: (i) => Math.min(codes[i], most - 1) };
}

const colourGroups = () => groupsOf(state.colour, MOST_COLOURS);
const facetGroups = () => groupsOf(state.facet, MOST_FACETS);

// Places of facets, in pixels: as many beside each other as fit.
function layout(width, names, { height, left, bottom, top = 30 }) {
  const columns = Math.max(1, Math.min(names.length, Math.floor(width / 280)));
  const each = width / columns;
  const tall = names.length > 1 ? Math.round(height * 0.75) : height;
  const grids = names.map((name, at) => ({
    left: (at % columns) * each + left,
    top: top + Math.floor(at / columns) * (tall + bottom + 24) + (names.length > 1 ? 20 : 0),
    width: Math.max(40, each - left - 16),
    height: tall,
  }));
  const last = grids[grids.length - 1];
  return { grids, total: last.top + last.height + bottom };
}

const facetTitles = (names, { grids }, colours) =>
  names.length < 2
    ? []
    : names.map((text, at) => ({
        text, left: grids[at].left, top: grids[at].top - 20,
        textStyle: { fontSize: 12, fontWeight: 600, color: colours.text, width: grids[at].width, overflow: "truncate" },
      }));

// The end of an axis from 0, a little beyond `most`, and the distance of its ticks, which the end is a multiple of.
function roundUp(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  const interval = [0.2, 0.25, 0.5, 1, 2].map((step) => step * power).find((step) => step * 6 >= most * 0.999);
  return { max: interval * Math.ceil((most / interval) * 0.999), interval };
}

function axis(name, colours, { log = false, grid = 0, gap = 28, letters = 16 } = {}) {
  const dimension = DIMENSIONS.get(name);
  const common = {
    name: label(dimension), nameLocation: "middle", nameGap: gap, gridIndex: grid, triggerEvent: false,
    nameTextStyle: { color: colours.text }, axisLine: { lineStyle: { color: colours.faint } },
    axisLabel: { color: colours.faint, hideOverlap: true, formatter: dimension.isText ? (text) => shorten(text, letters) : digits },
    splitLine: { show: !dimension.isText, lineStyle: { color: colours.rule } }, axisTick: { show: false },
  };
  if (dimension.isText) return { ...common, type: "category", data: dimension.values };
  const [least, most] = [dimension.least, dimension.most].map((bound) => bound / dimension.factor);
  if (log && least > 0) {
    const [low, high] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
    return { ...common, type: "log", min: 10 ** low, max: 10 ** Math.max(high, low + 1) };
  }
  return { ...common, type: "value", min: Math.min(0, least), ...(most > 0 ? roundUp(most) : { max: 1 }) };
}

const position = (dimension, i) => (dimension.isText ? dimension.codes[i] : dimension.numbers[i] / dimension.factor);

// Moves a point inside of its category, so that trials with equal values stay apart.
const spread = (dimension, i, shift) =>
  dimension.isText ? dimension.codes[i] + (((LOT[i] >>> shift) & 255) / 255 - 0.5) * 0.6 : position(dimension, i);

function legend(colours, groups) {
  return state.colour
    ? { show: true, type: "scroll", top: 0, data: groups.names, selectedMode: false, itemHeight: 9, itemWidth: 14,
        formatter: (name) => shorten(name, 24), textStyle: { color: colours.text } }
    : { show: false };
}

const describeTrial = (i) =>
  [DATA.names[CELL[i]], ...[state.metric, state.x, state.y].filter((name, at, all) => all.indexOf(name) === at)
    .map((name) => `${name} ${show(DIMENSIONS.get(name), i)} ${DIMENSIONS.get(name).unit || ""}`)].join("\n");

const base = (colours) => ({
  animation: false, color: colours.colours, textStyle: { fontFamily: "system-ui, sans-serif" },
  tooltip: {
    renderMode: "richText", confine: true, backgroundColor: colours.ground, borderColor: colours.faint,
    textStyle: { color: colours.text, fontSize: 12 },
  },
});

function counted(drawn, selected, known) {
  let fitting = 0;
  for (const i of selected) if (known(i)) fitting++;
  const count = (number) => `${number.toLocaleString("en")} ${number === 1 ? "trial" : "trials"}`;
  const shown = drawn < fitting ? `${drawn.toLocaleString("en")} of ${count(fitting)} drawn, chosen at random.` : `${count(fitting)}.`;
  return fitting < selected.length ? `${shown} ${count(selected.length - fitting)} without these figures.` : shown;
}

// ---- parallel axes ----

function parallelView(width, { left, selected }, colours) {
  const shown = state.axes.map((name) => DIMENSIONS.get(name));
  const known = (i) => shown.every((one) => one.isText || !Number.isNaN(one.numbers[i]));
  const groups = colourGroups();
  const lines = draw(selected, MOST_LINES, known).sort((one, other) => LOT[one] - LOT[other]);
  const rest = selected.length < COUNT ? draw(ALL, MOST_LINES / 4, (i) => !left[i] && known(i)) : [];
  const values = (i) => shown.map((one) => position(one, i));
  const upright = width < 640; // axes below each other
  const height = upright ? 70 * shown.length + 40 : 380;
  const area = upright ? { left: 30, right: 40, top: 60, bottom: 20 } : { left: 100, right: 90, top: 62, bottom: 26 };
  const series = (name, data, style) => ({
    type: "parallel", name, silent: true, data, progressive: 0, lineStyle: { width: 1, ...style }, emphasis: { disabled: true },
  });
  const option = {
    ...base(colours),
    legend: legend(colours, groups),
    parallel: {
      ...area, layout: upright ? "vertical" : "horizontal",
      parallelAxisDefault: {
        nameLocation: upright ? "start" : "end", nameGap: upright ? 0 : 12,
        nameTextStyle: { color: colours.text, fontSize: 11, backgroundColor: `${colours.ground}b0`, ...(upright && { align: "left", verticalAlign: "bottom", padding: [0, 0, 8, 0] }) },
        axisLine: { lineStyle: { color: colours.faint } }, axisLabel: {
          color: colours.text, fontSize: 11, hideOverlap: true, margin: 4, padding: [1, 4], backgroundColor: `${colours.ground}e6`,
        },
        axisTick: { show: false }, splitLine: { show: false }, areaSelectStyle: { width: 0 },
      },
    },
    parallelAxis: shown.map((one, dim) => {
      const { type, data, min, max, interval, axisLabel } = axis(one.name, colours, { log: state.log, letters: 14 });
      const text = label(one);
      const short = upright ? text : shorten(text, 18);
      const aside = !dim && !upright && { align: "right", margin: -4 }; // on the left of the first axis, where no line is
      return { dim, name: short, type, data, min, max, interval, silent: true, z: 5, axisLabel: { formatter: axisLabel.formatter, ...aside } };
    }),
    series: [
      series("rest", rest.map(values), { color: colours.rest, opacity: 0.35 }),
      // In one series, so that no colour hides the others; empty ones are for the legend.
      series("selected", lines.map((i) => ({ value: values(i), lineStyle: { color: colours.colours[groups.of(i)] } })), { opacity: lines.length > 200 ? 0.35 : 0.7 }),
      ...groups.names.map((name, group) => ({ ...series(name, [], {}), color: colours.colours[group], itemStyle: { color: colours.colours[group] } })),
    ],
  };
  const about = counted(lines.length, selected, known);
  return { option, height, about, brush: { kind: "parallel", names: state.axes, upright } };
}

// ---- scatter ----

function scatterView(width, { left, selected }, colours) {
  const [x, y] = [DIMENSIONS.get(state.x), DIMENSIONS.get(state.y)];
  const known = (i) => !Number.isNaN(position(x, i)) && !Number.isNaN(position(y, i));
  const [facets, groups] = [facetGroups(), colourGroups()];
  const points = draw(selected, MOST_POINTS, known);
  const rest = selected.length < COUNT ? draw(ALL, MOST_REST, (i) => !left[i] && known(i)) : [];
  const place = layout(width, facets.names, { height: 300, left: 64, bottom: 46 });
  const series = facets.names.flatMap((_, facet) => {
    const point = (i) => [spread(x, i, 8), spread(y, i, 16), i];
    const common = { type: "scatter", xAxisIndex: facet, yAxisIndex: facet, progressive: 0, emphasis: { disabled: true }, clip: true };
    // In layers, so that no colour hides the others.
    const data = Array.from({ length: LAYERS * groups.names.length }, () => []);
    for (const i of points) if (facets.of(i) === facet) data[(LOT[i] % LAYERS) * groups.names.length + groups.of(i)].push(point(i));
    const size = points.length > 2000 ? 3 : 6;
    return [
      { ...common, silent: true, symbolSize: 3, large: true, largeThreshold: 1, itemStyle: { color: colours.rest }, data: rest.filter((i) => facets.of(i) === facet).map(point) },
      ...data.map((of, at) => ({
        ...common, name: groups.names[at % groups.names.length], symbolSize: size, large: true, largeThreshold: 1,
        itemStyle: { color: colours.colours[at % groups.names.length], opacity: 0.75 }, data: of,
      })),
    ];
  });
  const option = {
    ...base(colours), series, grid: place.grids, legend: legend(colours, groups), title: facetTitles(facets.names, place, colours),
    xAxis: facets.names.map((_, grid) => axis(x.name, colours, { log: state.log, grid })),
    yAxis: facets.names.map((_, grid) => axis(y.name, colours, { log: state.log, grid, gap: 46, letters: 6 })),
  };
  option.tooltip = { ...option.tooltip, trigger: "item", formatter: ({ data }) => describeTrial(data[2]) };
  return { option, height: place.total, about: counted(points.length, selected, known), brush: { kind: "grid", x: x.name, y: y.name } };
}

// ---- heat map ----

function mix(one, other, share) {
  const parse = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const [from, to] = [parse(one), parse(other)];
  return `#${from.map((part, at) => Math.round(part + (to[at] - part) * share).toString(16).padStart(2, "0")).join("")}`;
}

// Black or white, whichever is easier to read on a colour.
function contrast(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

function means(selected, facets, across, down) {
  const wide = Math.min(across.values.length, MOST_VALUES), tall = down ? Math.min(down.values.length, MOST_VALUES) : 1;
  const sums = new Float64Array(facets.names.length * wide * tall);
  const [counts, limited] = [new Int32Array(sums.length), new Int32Array(sums.length)];
  const { codes, values } = DIMENSIONS.get("state");
  const marked = values.indexOf("host-limited");
  const { numbers } = DIMENSIONS.get(state.metric);
  for (const i of selected) {
    const x = across.codes[i], y = down ? down.codes[i] : 0;
    if (Number.isNaN(numbers[i]) || x >= wide || y >= tall) continue;
    const at = (facets.of(i) * tall + y) * wide + x;
    sums[at] += numbers[i];
    counts[at]++;
    if (codes[i] === marked) limited[at]++;
  }
  return { wide, tall, counts, limited, mean: sums.map((sum, at) => sum / counts[at]) };
}

// Returns the least and the most by a key of each cell.
function ranges(mean, keyOf) {
  const found = new Map();
  mean.forEach((one, at) => {
    if (Number.isNaN(one)) return;
    const [least, most] = found.get(keyOf(at)) ?? [one, one];
    found.set(keyOf(at), [Math.min(least, one), Math.max(most, one)]);
  });
  return found;
}

function heatView(width, { selected }, colours) {
  const [across, down, metric] = [DIMENSIONS.get(state.across), DIMENSIONS.get(state.down), DIMENSIONS.get(state.metric)];
  const facets = facetGroups();
  const { wide, tall, counts, limited, mean } = means(selected, facets, across, down);
  // Kinds of work are not compared with each other, so each has its own scale of colours.
  const workOf = (at) => [[state.facet, Math.floor(at / wide / tall)], [state.down, Math.floor(at / wide) % tall], [state.across, at % wide]]
    .filter(([name]) => KINDS_OF_WORK.includes(name)).map(([, place]) => place).join();
  const scales = ranges(mean, workOf);
  const ends = [...scales.values()].flat();
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const meanText = (number) => digits(number / metric.factor, (most - least) / metric.factor);
  const scale = state.log && least > 0 ? Math.log : (number) => number;
  const height = Math.max(80, Math.min(34 * tall, 300));
  const place = layout(width, facets.names, { height, left: down ? 90 : 16, bottom: 46, top: 6 });
  const doubtful = limited.some(Boolean);
  const fits = place.grids[0].width / wide > (doubtful ? 54 : 34) && height / tall > 12;
  const numbered = wide * tall * facets.names.length <= LABELLED && fits;
  const series = facets.names.map((_, facet) => {
    const data = [];
    for (let at = facet * wide * tall; at < (facet + 1) * wide * tall; at++) {
      if (!counts[at]) continue;
      const [pale, strong] = scales.get(workOf(at)).map(scale);
      const share = strong > pale ? (scale(mean[at]) - pale) / (strong - pale) : 0.5;
      const colour = mix(colours.low, colours.high, share);
      data.push({
        value: [at % wide, Math.floor(at / wide) % tall, mean[at], counts[at], limited[at]],
        itemStyle: { color: colour, borderColor: colours.ground, borderWidth: 1 },
        label: { color: contrast(colour) },
      });
    }
    return {
      type: "heatmap", xAxisIndex: facet, yAxisIndex: facet, data, progressive: 0, emphasis: { disabled: true },
      label: { show: numbered, fontSize: 11, formatter: ({ value }) => `${meanText(value[2])}${value[4] ? " (!)" : ""}` },
    };
  });
  const option = {
    ...base(colours), series, grid: place.grids, title: facetTitles(facets.names, place, colours),
    // ECharts demands one; the colours are of the items.
    visualMap: { show: false, min: 0, max: 1, seriesIndex: [] },
    xAxis: facets.names.map((_, grid) => ({ ...axis(across.name, colours, { grid }), data: across.values.slice(0, wide) })),
    yAxis: facets.names.map((_, grid) =>
      down ? { ...axis(down.name, colours, { grid, gap: 74, letters: 10 }), data: down.values.slice(0, tall), inverse: true } : { type: "category", data: [""], gridIndex: grid, show: false }),
  };
  option.tooltip = {
    ...option.tooltip,
    formatter: ({ value }) =>
      [`${across.name} ${across.values[value[0]]}`, ...(down ? [`${down.name} ${down.values[value[1]]}`] : []),
        `mean ${state.metric} ${meanText(value[2])} ${metric.unit}`, `${value[3]} trials${value[4] ? `, ${value[4]} host-limited` : ""}`].join("\n"),
  };
  const cut = across.values.length > wide || (down && down.values.length > tall) ? ` The first ${MOST_VALUES} values of an axis are shown.` : "";
  const both = state.metric.startsWith("total_") ? " Totals count reads and writes together." : "";
  const doubt = doubtful ? " (!): some trials are host-limited." : "";
  const paleToStrong = scales.size > 1 ? `${meanText(least)} to ${meanText(most)}, from pale to strong in each kind of work` : `${meanText(least)} (pale) to ${meanText(most)} (strong)`;
  const about = scales.size
    ? `Mean ${label(metric)} of the selected trials: ${paleToStrong}.${both}${doubt}${cut}`
    : "No selected trial has this figure.";
  return { option, height: place.total, about, brush: { kind: "grid", x: across.name, y: down?.name } };
}

// ---- distribution ----

function bins(metric) {
  const log = state.log && metric.least > 0 && metric.most > metric.least;
  const [least, most] = log ? [Math.log(metric.least), Math.log(metric.most)] : [metric.least, metric.most];
  const size = (most - least) / BINS || 1;
  const bin = (number) => Math.min(BINS - 1, Math.floor(((log ? Math.log(number) : number) - least) / size));
  const edge = (at) => (log ? Math.exp(least + at * size) : least + at * size) / metric.factor;
  return { bin, edge };
}

function distributionView(width, { left, selected }, colours) {
  const metric = DIMENSIONS.get(state.metric);
  const [facets, groups] = [facetGroups(), colourGroups()];
  const { bin, edge } = bins(metric);
  const histogram = (trials, groupsHere) => {
    const counts = facets.names.map(() => groupsHere.names.map(() => new Array(BINS).fill(0)));
    for (const i of trials) {
      const number = metric.numbers[i];
      if (!Number.isNaN(number)) counts[facets.of(i)][groupsHere.of(i)][bin(number)]++;
    }
    return counts;
  };
  const counts = histogram(selected, groups);
  const every = selected.length < COUNT ? histogram(ALL, { names: [""], of: () => 0 }) : [];
  const place = layout(width, facets.names, { height: 180, left: 64, bottom: 46 });
  const bars = (facet, extra) => ({ type: "bar", large: true, largeThreshold: 1, progressive: 0, xAxisIndex: facet, yAxisIndex: facet, barCategoryGap: "8%", silent: true, ...extra });
  const option = {
    ...base(colours), grid: place.grids, legend: legend(colours, groups), title: facetTitles(facets.names, place, colours),
    series: facets.names.flatMap((_, facet) => [
      ...groups.names.map((name, group) =>
        bars(facet, { name, stack: "selected", z: 3, itemStyle: { color: colours.colours[group] }, data: counts[facet][group] })),
      ...(every.length ? [bars(facet, { barGap: "-100%", itemStyle: { color: colours.rest, opacity: 0.4 }, data: every[facet][0] })] : []),
    ]),
    xAxis: facets.names.map((_, grid) => ({
      ...axis(metric.name, colours, { grid }), type: "category", min: undefined, max: undefined, splitLine: { show: false },
      axisLabel: { color: colours.faint, hideOverlap: true },
      data: Array.from({ length: BINS }, (_unused, at) => digits(edge(at + 0.5), edge(at + 1) - edge(at))),
    })),
    yAxis: facets.names.map((_, grid) => ({
      type: "value", name: "trials", nameLocation: "middle", nameGap: 46, gridIndex: grid, minInterval: 1,
      nameTextStyle: { color: colours.text }, axisLabel: { color: colours.faint }, splitLine: { lineStyle: { color: colours.rule } },
    })),
  };
  return { option, height: place.total, about: summary(metric, left), brush: { kind: "bins", x: metric.name, edge } };
}

const ORDERS = new Map(); // by figure: the trials that have it, in its order

function inOrder(metric) {
  if (!ORDERS.has(metric.name)) {
    const { numbers } = metric;
    const known = ALL.filter((i) => !Number.isNaN(numbers[i]));
    ORDERS.set(metric.name, known.sort((one, other) => numbers[one] - numbers[other]));
  }
  return ORDERS.get(metric.name);
}

function summary(metric, left) {
  const known = inOrder(metric).filter((i) => left[i]);
  if (!known.length) return `No selected trial has ${metric.name}.`;
  const sorted = (at) => metric.numbers[known[at]] / metric.factor;
  const spread = sorted(known.length - 1) - sorted(0);
  const at = (share) => {
    const place = share * (known.length - 1), below = Math.floor(place), above = Math.ceil(place);
    return digits(sorted(below) + (place - below) * (sorted(above) - sorted(below)), spread / 10);
  };
  return `${label(metric)} of ${known.length.toLocaleString("en")} selected trials: ${at(0)} to ${at(1)}, median ${at(0.5)}, middle half ${at(0.25)} to ${at(0.75)}.`;
}

const VIEWS = { parallel: parallelView, scatter: scatterView, heat: heatView, distribution: distributionView };
