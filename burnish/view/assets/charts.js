// Curves, drawn by uPlot: a metric that grows, and several arms of a study with their bands.
(() => {
  const HEIGHT = 170;
  const SMOOTHED_FROM = 24; // points; fewer are joined as they are
  const plots = new Set();

  const axes = () => {
    const common = {
      stroke: () => page.colour("--soft"),
      grid: { stroke: () => page.colour("--rule"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
      values: (_, splits) => splits.map((value) => (value === null ? "" : page.number(value))),
    };
    return [
      { ...common, size: 26, space: 60, grid: { show: false } },
      { ...common, size: 50, gap: 4, space: 34 },
    ];
  };

  // Centred mean over `width` values, over fewer near the ends and over those that are there.
  const smoothed = (values) => {
    const half = Math.max(5, Math.floor(values.length / 12)) >> 1;
    const sums = [0];
    const counts = [0];
    values.forEach((value, i) => {
      sums.push(sums[i] + (value ?? 0));
      counts.push(counts[i] + (value === null ? 0 : 1));
    });
    return values.map((_, i) => {
      const low = Math.max(0, i - half);
      const high = Math.min(values.length, i + half + 1);
      const count = counts[high] - counts[low];
      return count ? (sums[high] - sums[low]) / count : null;
    });
  };

  const plot = (figure, place, series, bands, data, tell) => {
    const made = new uPlot(
      {
        width: Math.max(160, place.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { size: 7 }, drag: { setScale: true, x: true, y: false } },
        scales: { x: { time: false } },
        axes: axes(),
        series: [{}, ...series],
        bands,
        hooks: { setCursor: [(u) => tell(u.cursor.left >= 0 ? u.cursor.idx : null)] },
      },
      data,
      place,
    );
    plots.add({ made, place });
    figure.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (move === undefined || !made.data[0].length) return;
      event.preventDefault();
      const last = made.data[0].length - 1;
      const now = made.cursor.left >= 0 && made.cursor.idx !== null ? made.cursor.idx : move > 0 ? -1 : last + 1;
      const to = Math.min(last, Math.max(0, now + move));
      made.setCursor({ left: made.valToPos(made.data[0][to], "x"), top: 0 });
      tell(to);
    });
    return made;
  };

  const line = (colour, options = {}) => ({
    stroke: () => page.colour(colour),
    width: 2,
    spanGaps: false,
    points: { show: false },
    ...options,
  });
  const edge = { width: 0, stroke: "transparent", points: { show: false } };
  const single = (u, i) => u.data[i].filter((value) => value !== null).length === 1;

  // ---------------------------------------------------------------- one metric

  class Metric {
    constructor(name, curve, title, unit = "", marked = false) {
      Object.assign(this, { name, title, unit, marked, plot: null });
      this.values = page.el("span", { class: "values", "aria-live": "polite" });
      this.place = page.el("div", { class: "plot", role: "img" });
      const caption = page.el("figcaption", {}, page.el("span"), this.values);
      caption.firstChild.append(page.shown(title));
      this.figure = page.el("figure", { tabindex: 0, "data-metric": name }, caption, this.place);
      this.set(curve);
      seen.observe(this.figure);
      this.figure.metric = this;
    }
    set(curve) {
      const missing = () => curve.x.map(() => null);
      this.x = [...curve.x];
      this.y = [...curve.y];
      this.low = curve.low ? [...curve.low] : missing();
      this.high = curve.high ? [...curve.high] : missing();
      this.banded = Boolean(curve.low);
      this.update();
    }
    append(steps, values) {
      this.x.push(...steps);
      this.y.push(...values);
      this.low.push(...values.map((value) => (this.banded ? value : null)));
      this.high.push(...values.map((value) => (this.banded ? value : null)));
      this.update();
    }
    get smooth() {
      const count = this.y.filter((value) => value !== null).length;
      return !this.banded && count >= SMOOTHED_FROM ? smoothed(this.y) : this.y.map(() => null);
    }
    get columns() {
      return [this.x, this.y, this.smooth, this.low, this.high];
    }
    update() {
      this.tell(null);
      const finite = this.y.filter((value) => value !== null);
      const all = this.banded ? [...this.low, ...this.high].filter((value) => value !== null) : finite;
      const ends = all.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
      const told = `from ${page.number(finite[0])} to ${page.number(finite.at(-1))}, between ${page.number(ends[0])} and ${page.number(ends[1])}`;
      this.place.setAttribute("aria-label", `${this.title}: ${told}`);
      if (this.plot) this.plot.setData(this.columns);
    }
    tell(at) {
      const told = page.el("b");
      if (at === null || this.y[at] === undefined) {
        const finite = this.y.filter((value) => value !== null);
        told.append(page.number(finite.at(-1)));
        this.values.replaceChildren(finite.length > 1 ? `${page.number(finite[0])} → ` : "", told, this.unit);
        return;
      }
      told.append(page.number(this.y[at]));
      const band = this.low[at] === null || this.low[at] === this.high[at] ? "" : ` [${page.number(this.low[at])}, ${page.number(this.high[at])}]`;
      this.values.replaceChildren(`${this.marked ? "version" : "step"} ${page.number(this.x[at])}: `, told, band, this.unit);
    }
    draw() {
      if (this.plot) return;
      const faint = (u) => u.data[2].some((value) => value !== null);
      const dots = this.marked ? () => true : single;
      const series = [
        line("--accent", {
          stroke: (u) => page.colour(faint(u) ? "--accent-faint" : "--accent"),
          points: { show: dots, size: 7, fill: () => page.colour("--card") },
        }),
        line("--accent"), edge, edge,
      ];
      const bands = [{ series: [4, 3], fill: () => page.colour("--accent-band") }];
      this.plot = plot(this.figure, this.place, series, bands, this.columns, (at) => this.tell(at));
    }
  }

  const seen = new IntersectionObserver(
    (entries) => entries.forEach((entry) => entry.isIntersecting && entry.target.metric.draw()),
    { rootMargin: "200px" },
  );

  const metrics = new Map();

  const place = (name, curve) => {
    const first = (page.data.first || []).find(
      (chart) => chart.names.includes(name) && !chart.names.some((other) => other !== name && metrics.get(other)?.chart === chart),
    );
    const made = new Metric(name, curve, first ? first.title : name, first ? first.unit : "");
    made.chart = first;
    metrics.set(name, made);
    const grid = document.getElementById(first ? "first-charts" : "more-charts");
    if (first) {
      const order = (figure) => page.data.first.indexOf(figure.metric.chart);
      const after = [...grid.children].find((figure) => figure.metric.chart && order(figure) > page.data.first.indexOf(first));
      grid.insertBefore(made.figure, after || null);
    } else grid.append(made.figure);
    document.getElementById("curves").hidden = false;
    const more = document.getElementById("more");
    more.hidden = !document.getElementById("more-charts").childElementCount;
    more.querySelector("summary").textContent = `${document.getElementById("more-charts").childElementCount} more metrics`;
  };

  page.drawMetrics = (curves) => {
    for (const [name, curve] of Object.entries(curves)) {
      if (!curve.y.some((value) => value !== null)) continue;
      if (metrics.has(name)) metrics.get(name).set(curve);
      else place(name, curve);
    }
  };
  page.appendMetrics = (steps, values) => {
    for (const [name, column] of Object.entries(values)) {
      const at = steps.filter((_, i) => column[i] !== undefined);
      if (metrics.has(name)) metrics.get(name).append(at, column);
      else if (column.some((value) => value !== null)) place(name, { x: at, y: column });
    }
  };
  page.clearMetrics = () => {
    for (const metric of metrics.values()) metric.set({ x: [], y: [] });
  };
  page.drawEvaluations = (drawn) => {
    const grid = document.getElementById("first-charts");
    grid.querySelectorAll("figure[data-evaluation]").forEach((figure) => figure.remove());
    for (const curve of drawn) {
      const made = new Metric(curve.title, curve, curve.title, "", true);
      made.figure.dataset.evaluation = "";
      grid.prepend(made.figure);
      document.getElementById("curves").hidden = false;
    }
  };

  // ---------------------------------------------------------------- several arms

  const ARMS = 8; // colours --arm-0 to --arm-7; more arms begin again, dashed

  // { title, unit, across, series: [{ name, x, y, low?, high? }] } as a figure with a legend
  page.armChart = (chart) => {
    const at = [...new Set(chart.series.flatMap((arm) => arm.x))].sort((a, b) => a - b);
    const lay = (arm, column) => {
      const known = new Map(arm.x.map((x, i) => [x, arm[column] ? arm[column][i] : null]));
      return at.map((x) => (known.has(x) ? known.get(x) : null));
    };
    const columns = [at, ...chart.series.flatMap((arm) => [lay(arm, "y"), lay(arm, "low"), lay(arm, "high")])];
    const series = chart.series.flatMap((_, i) => [
      line(`--arm-${i % ARMS}`, { spanGaps: true, dash: i >= ARMS ? [6, 4] : undefined, points: { show: single, size: 7 } }),
      { ...edge, spanGaps: true }, { ...edge, spanGaps: true },
    ]);
    const bands = chart.series.map((_, i) => ({
      series: [3 * i + 3, 3 * i + 2],
      fill: () => `color-mix(in srgb, ${page.colour(`--arm-${i % ARMS}`)} 16%, transparent)`,
    }));
    const legend = page.el("ul", { class: "legend" });
    chart.series.forEach((arm, i) => {
      const entry = page.el("li", { class: `arm-${i % ARMS}` }, page.el("i"), page.el("span"), page.el("b"));
      entry.children[1].append(page.shown(arm.name));
      legend.append(entry);
    });
    const where = page.el("span", { class: "values", "aria-live": "polite" });
    const caption = page.el("figcaption", {}, page.el("span"), where);
    caption.firstChild.append(page.shown(chart.title));
    const spot = page.el("div", { class: "plot", role: "img", "aria-label": chart.title });
    const figure = page.el("figure", { tabindex: 0, class: "arms" }, caption, spot, legend);
    const tell = (idx) => {
      where.textContent = idx === null ? "" : `${chart.across} ${page.number(at[idx])}`;
      chart.series.forEach((_, i) => {
        const value = idx === null ? undefined : columns[3 * i + 1][idx];
        legend.children[i].lastChild.textContent = value === undefined || value === null ? "" : page.number(value);
      });
    };
    figure.metric = { draw: () => figure.drawn || ((figure.drawn = true), plot(figure, spot, series, bands, columns, tell)) };
    seen.observe(figure);
    return figure;
  };

  // ---------------------------------------------------------------- width and colours

  const fit = () => {
    for (const { made, place: spot } of plots)
      if (spot.clientWidth && spot.clientWidth !== made.width) made.setSize({ width: spot.clientWidth, height: HEIGHT });
  };
  new ResizeObserver(fit).observe(document.body);
  page.onColours(() => plots.forEach(({ made }) => made.redraw(false, true)));
})();
