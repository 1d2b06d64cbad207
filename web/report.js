"use strict";
// Draws the page's charts from the page's data. It only positions things: all text is in the data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // How lines without a colour of their own are told apart: ink or accent, and how they are dashed.
  const DASHES = [[], [], [7, 4], [7, 4], [2, 3], [2, 3]];

  // Maps a value to its position on an axis.
  const laidOut = {
    linear: (value) => value,
    log: (value) => (value > 0 ? Math.log10(value) : -0.35),
    nines: (share) => -Math.log10(1 - share),
  };

  // The visible ticks for which there is room, roundest first.
  const thinned = (ticks, place, from, to, pixels, least) => {
    const inSight = ticks.flatMap(([value, text, rank]) => {
      const at = place(value);
      const pixel = ((at - from) / (to - from)) * pixels;
      return at < from - 1e-9 || at > to + 1e-9 ? [] : [{ at, text, rank, pixel }];
    });
    let kept = [];
    for (const tick of inSight.filter((one) => one.rank === 0)) {
      if (kept.every((other) => Math.abs(other.pixel - tick.pixel) >= least)) kept.push(tick);
    }
    // Finer ticks are shown all together or not at all.
    for (const rank of [1, 2]) {
      const more = inSight.filter((one) => one.rank <= rank);
      const near = more.some((one, index) => index > 0 && Math.abs(one.pixel - more[index - 1].pixel) < least);
      if (!near && more.length > kept.length) kept = more;
    }
    return kept;
  };

  const axis = (spec, side, room) => {
    const place = laidOut[spec.scale];
    let texts = new Map();
    return {
      label: spec.label,
      labelSize: 20,
      labelFont: "12px system-ui, sans-serif",
      font: "12px system-ui, sans-serif",
      side,
      size: side === 2 ? 30 : 58,
      stroke: () => colour("--quiet"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { show: false },
      splits: (u, _index, from, to) => {
        const pixels = (side === 2 ? u.bbox.width : u.bbox.height) / devicePixelRatio;
        const kept = thinned(spec.ticks, place, from, to, pixels, room);
        texts = new Map(kept.map((tick) => [tick.at, tick.text]));
        return kept.map((tick) => tick.at);
      },
      values: (_u, splits) => splits.map((at) => texts.get(at) ?? ""),
    };
  };

  const padded = (low, high, part) => {
    const room = high > low ? (high - low) * part : 0.5;
    return [low - room, high + room];
  };

  const draw = (figure) => {
    const spec = data.charts[Number(figure.dataset.chart)];
    const plot = figure.querySelector(".plot");
    const readout = figure.querySelector(".readout");
    const [x, y] = [laidOut[spec.x.scale], laidOut[spec.y.scale]];
    const lines = spec.lines.filter((line) => line.points.length > 0);
    if (lines.length === 0) return null;
    const joined = uPlot.join(
      lines.map((line) => [line.points.map((point) => x(point[0])), line.points.map((point) => y(point[1]))]),
    );
    const texts = lines.map((line) => new Map(line.points.map((point) => [x(point[0]), point[2]])));
    const marks = spec.marks.map(([value, text]) => [x(value), text]);
    const places = [...joined[0], ...marks.map((mark) => mark[0])];
    const levels = spec.levels.map(([value, text]) => [y(value), text]);
    const heights = [...joined.slice(1).flat().filter((value) => value != null), ...levels.map((level) => level[0])];
    const whole = padded(Math.min(...places), Math.max(...places), spec.kind === "steps" ? 0 : 0.02);
    const tall = [Math.min(...heights), Math.max(...heights)];
    const upright =
      spec.y.scale === "linear" ? padded(tall[0], tall[1], 0.08)
      : spec.kind === "steps" ? [-0.42, tall[1] + 0.15] // A line at zero is not cut by the edge.
      : padded(tall[0], tall[1], 0.06);
    const many = lines.length > 1;
    // Points of a line that are further apart than this are not connected.
    const gaps = (line) => (u) =>
      line.points.flatMap(([at], index) => {
        const before = index > 0 ? line.points[index - 1][0] : at;
        return at - before > spec.widest * 1.5 ? [[before, at].map((value) => u.valToPos(x(value), "x", true))] : [];
      });
    const apart = (line) => line.apart;
    const paths = spec.kind === "steps" ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
    let at = -1;

    const tell = (index) => {
      const place = joined[0][index];
      const told = lines.flatMap((line, number) => {
        const text = texts[number].get(place);
        return text == null ? [] : [many ? `${line.label}: ${text}` : text];
      });
      readout.textContent = told.join("; ");
    };

    const options = {
      width: Math.max(plot.clientWidth, 200),
      height: plot.clientHeight,
      ms: 1,
      legend: { show: false },
      padding: [14, 26, 0, 0],
      cursor: { drag: { x: true, y: false }, points: { size: 7 } },
      scales: {
        x: { time: false, range: (_u, from, to) => (from == null || to - from < 0.02 ? whole : [from, to]) },
        y: { range: () => upright },
      },
      axes: [axis(spec.x, 2, 58), axis(spec.y, 3, 24)],
      series: [
        {},
        ...lines.map((line, number) => {
          const variable = `--${line.style}`;
          const plain = /^s(\d+)$/.exec(line.style);
          return {
            label: line.label,
            stroke: () => colour(variable),
            fill: spec.kind === "steps" ? () => colour(variable) + "38" : undefined,
            fillTo: spec.kind === "steps" ? upright[0] : undefined,
            width: 1.6,
            dash: plain ? DASHES[Number(plain[1])] : undefined,
            paths: apart(line) ? () => null : paths,
            spanGaps: spec.widest == null,
            gaps: gaps(line),
            points: { show: apart(line) || spec.widest != null || (line.points.length < 40 && spec.kind === "lines"), size: spec.widest != null && !apart(line) ? 4 : 6, fill: () => colour(variable) },
          };
        }),
      ],
      hooks: {
        // Below the lines, so that no text hides a point.
        drawAxes: [
          (u) => {
            const { ctx, bbox } = u;
            ctx.save();
            ctx.strokeStyle = ctx.fillStyle = colour("--text");
            ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
            ctx.lineWidth = 1.5 * devicePixelRatio;
            ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
            for (const [place, text] of marks) {
              const left = u.valToPos(place, "x", true);
              if (left < bbox.left || left > bbox.left + bbox.width) continue;
              ctx.beginPath();
              ctx.moveTo(left, bbox.top);
              ctx.lineTo(left, bbox.top + bbox.height);
              ctx.stroke();
              const before = left > bbox.left + bbox.width / 2;
              ctx.textAlign = before ? "right" : "left";
              ctx.fillText(text, left + (before ? -6 : 6) * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
            }
            for (const [height, text] of levels) {
              const top = u.valToPos(height, "y", true);
              ctx.beginPath();
              ctx.moveTo(bbox.left, top);
              ctx.lineTo(bbox.left + bbox.width, top);
              ctx.stroke();
              ctx.textAlign = "right";
              ctx.fillText(text, bbox.left + bbox.width - 6 * devicePixelRatio, top - 9 * devicePixelRatio);
            }
            ctx.restore();
          },
        ],
        setCursor: [
          (u) => {
            if (u.cursor.idx != null && u.cursor.left >= 0) {
              at = u.cursor.idx;
              tell(at);
            }
          },
        ],
      },
    };
    const chart = new uPlot(options, joined, plot);

    const go = (index) => {
      at = Math.min(Math.max(index, 0), joined[0].length - 1);
      const value = joined.slice(1).map((line) => line[at]).find((height) => height != null);
      const { min, max } = chart.scales.x;
      const place = joined[0][at];
      if (place < min || place > max) zoom(place - (max - min) / 2, place + (max - min) / 2);
      chart.setCursor({ left: chart.valToPos(place, "x"), top: chart.valToPos(value ?? upright[0], "y") });
      tell(at);
    };
    const zoom = (from, to) => chart.setScale("x", { min: Math.max(from, whole[0]), max: Math.min(to, whole[1]) });
    const closer = (factor) => {
      const { min, max } = chart.scales.x;
      const middle = at >= 0 ? joined[0][at] : (min + max) / 2;
      zoom(middle - (middle - min) * factor, middle + (max - middle) * factor);
    };
    const keys = {
      ArrowRight: () => go(at + 1),
      ArrowLeft: () => go(at < 0 ? joined[0].length - 1 : at - 1),
      Home: () => go(0),
      End: () => go(joined[0].length - 1),
      "+": () => closer(0.5),
      "=": () => closer(0.5),
      "-": () => closer(2),
      0: () => zoom(...whole),
      Escape: () => zoom(...whole),
    };
    plot.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    new ResizeObserver(() => {
      const [width, height] = [Math.max(plot.clientWidth, 200), plot.clientHeight];
      if (width !== chart.width || height !== chart.height) chart.setSize({ width, height });
    }).observe(plot);
    return chart;
  };

  const charts = [...document.querySelectorAll("figure[data-chart]")].map(draw);
  const again = () => charts.forEach((chart) => chart?.redraw(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

  // Printing expands everything except tables of several pages.
  const ROWS = 60;
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")].filter((one) => one.querySelectorAll("tr").length <= ROWS);
    folded.forEach((one) => (one.open = true));
  });
  addEventListener("afterprint", () => folded.forEach((one) => (one.open = false)));
  // For tests, and for users who inspect the charts.
  globalThis.roundtrip = { data, charts };
})();
