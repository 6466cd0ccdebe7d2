// Sorts and filters the tables of the report, which are complete without it. The page is XML too: no ampersand, no less-than.
"use strict";
(() => {
  const SORTED = 3; // rows of a table that can be sorted
  const FILTERED = 8; // rows of a table that can be filtered
  const SIZES = { KiB: 1, MiB: 2, GiB: 3, TiB: 4 };
  const TIMES = { "µs": 1e3, ms: 1e6, s: 1e9 };

  // "9.00 ms", "read 40.0 MB/s" and "82.9 to 337 MB/s" are numbers by their first number. Only times have several units.
  function number(text) {
    const found = text.replaceAll(",", "").match(/[\d.]+/);
    const unit = text.match(/\d (\S+)/g)?.map((one) => one.slice(2)).find((one) => one !== "to");
    return found ? found[0] * (TIMES[unit] ?? 1) : 0;
  }

  // Sizes in bytes, so that 64KiB is before 1MiB.
  const plain = (text) => text.replace(/(\d+)([KMGT]iB)/g, (_, count, unit) => count * 1024 ** SIZES[unit]);
  const words = new Intl.Collator("en", { numeric: true });

  function make(tag, properties, ...children) {
    const one = Object.assign(document.createElement(tag), properties);
    one.append(...children);
    return one;
  }

  function sort(body, declared, column, order) {
    const text = (row) => row.cells[column].textContent.trim();
    const isNumber = declared[0].cells[column].classList.contains("number");
    const known = declared.filter(text).map((row) => [row, isNumber ? number(text(row)) : plain(text(row))]);
    known.sort(([, a], [, b]) => order * (isNumber ? a - b : words.compare(a, b)));
    const sorted = [...known.map(([row]) => row), ...declared.filter((row) => !text(row))];
    body.append(...(order ? sorted : declared));
  }

  function makeSortable(table) {
    const body = table.tBodies[0];
    const declared = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const isNumber = head.classList.contains("number");
      const orders = isNumber ? ["descending", "ascending", null] : ["ascending", "descending", null];
      const button = make("button", { type: "button", title: "Sort by this column" }, ...head.childNodes);
      button.addEventListener("click", () => {
        const order = orders[(orders.indexOf(head.ariaSort) + 1) % orders.length];
        for (const other of heads) other.removeAttribute("aria-sort");
        if (order) head.ariaSort = order;
        sort(body, declared, column, { ascending: 1, descending: -1 }[order] ?? 0);
      });
      head.append(button);
    });
  }

  function makeFilterable(table, region) {
    const rows = [...table.tBodies[0].rows].map((row) => [row, row.textContent.toLowerCase()]);
    const input = make("input", { type: "search", placeholder: "raid5 64KiB" });
    const count = make("output", {});
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase().split(/\s+/);
      for (const [row, text] of rows) row.hidden = !wanted.every((word) => text.includes(word));
      const left = rows.filter(([row]) => !row.hidden).length;
      count.textContent = left === rows.length ? "" : `${left} of ${rows.length} rows`;
    });
    const label = make("label", {}, `Rows of “${region.ariaLabel}” with all these words: `, input);
    region.before(make("p", { className: "filter" }, label, " ", count));
  }

  const LOOK = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linecap",
    "vector-effect", "paint-order", "font-size", "font-family", "display"];

  function draw(tag, attributes, ...children) {
    const one = document.createElementNS(document.querySelector("figure > svg").namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
    one.append(...children);
    return one;
  }

  // A copy that looks the same without the styles of the page.
  function copied(svg, attributes) {
    const copy = svg.cloneNode(true);
    const copies = [copy, ...copy.querySelectorAll("*")];
    [svg, ...svg.querySelectorAll("*")].forEach((one, at) => {
      const look = getComputedStyle(one);
      for (const name of LOOK) copies[at].style.setProperty(name, look.getPropertyValue(name));
    });
    copy.removeAttribute("class");
    for (const [name, value] of Object.entries(attributes)) copy.setAttribute(name, value);
    return copy;
  }

  function picture(figure) {
    const svg = figure.querySelector(":scope > svg");
    const { width, height } = svg.getBoundingClientRect();
    const { color, fontFamily } = getComputedStyle(figure);
    const { paddingLeft, paddingRight } = getComputedStyle(svg);
    const left = 16 + parseFloat(paddingLeft), inside = width - parseFloat(paddingLeft) - parseFloat(paddingRight);
    const words = (x, y, text, most) => {
      const size = Math.min(most, (1.7 * (width - x)) / text.length); // a long text is smaller
      return draw("text", { x, y, fill: color, "font-size": size, "font-family": fontFamily }, text);
    };
    const parts = [words(16, 28, figure.querySelector("figcaption").textContent.trim(), 15)];
    parts.push(copied(svg, { x: left, y: 44, width: inside, height, overflow: "visible" }));
    let x = 16, y = 68 + height;
    for (const one of figure.querySelectorAll(".key > span")) {
      const text = one.textContent.trim(), room = 60 + 7 * text.length;
      if (x > 16) if (x + room > width) [x, y] = [16, y + 20];
      parts.push(copied(one.querySelector("svg"), { x, y: y - 10 }), words(x + 34, y, text, 12));
      x += room;
    }
    for (const one of figure.querySelectorAll(".key")) {
      if (!one.querySelector("span")) parts.push(words(16, (y += 20), one.textContent.trim(), 12));
    }
    parts.push(words(16, (y += 20), document.title, 11));
    const whole = { width: width + 32, height: y + 12 };
    const ground = getComputedStyle(document.body).backgroundColor;
    return draw("svg", whole, draw("rect", { width: "100%", height: "100%", fill: ground }), ...parts);
  }

  function makeSaveable(figure) {
    const button = make("button", { type: "button", className: "save", title: "Save this chart as a picture" }, "Save as SVG");
    button.addEventListener("click", () => {
      const text = new XMLSerializer().serializeToString(picture(figure));
      const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
      const name = figure.querySelector("figcaption").textContent.trim().replace(/[^\w.-]+/g, "-").slice(0, 80);
      make("a", { href: address, download: `${name}.svg` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    });
    figure.append(button);
  }

  for (const figure of document.querySelectorAll("figure:has(> svg)")) makeSaveable(figure);
  for (const region of document.querySelectorAll(".wide")) {
    const table = region.querySelector("table:not(.heat):not(.facts)");
    const rows = table?.tBodies[0].rows.length ?? 0;
    if (rows >= SORTED) makeSortable(table);
    if (rows >= FILTERED) makeFilterable(table, region);
  }
})();
