// The nearest neighbours of an entity: a table, and the histories of all of them below one another.
const timelines = data.neighbours && (() => {
  const { count, examples, histories } = data.neighbours;
  const queries = decode(data.neighbours.queries, Uint32Array), nearest = decode(data.neighbours.nearest, Uint32Array);
  const similarity = decode(data.neighbours.similarity, Uint16Array), place = new Map();
  queries.forEach((row, at) => place.set(row, at));
  let shown = queries[0];

  const known = histories && (() => {
    const lengths = decode(histories.lengths, Uint16Array), totals = decode(histories.totals, Uint32Array), starts = new Map();
    let start = 0;
    decode(histories.rows, Uint32Array).forEach((row, at) => { starts.set(row, { start, length: lengths[at], total: totals[at] }); start += lengths[at]; });
    const columns = histories.columns.map(column => ({ ...column, cells: column.kind === "names" ? decode(column.codes, Uint8Array) : decode(column.values, Float32Array) }));
    return { starts, columns, times: decode(histories.times, Uint32Array) };
  })();

  const timeOf = event => histories.start + known.times[event] * histories.step;
  const shortened = text => text.length > (narrow.matches ? 9 : 22) ? `${text.slice(0, narrow.matches ? 8 : 21)}…` : text;

  function show(row) {
    shown = row;
    const at = place.get(row), rows = at === undefined ? [] : Array.from(nearest.subarray(at * count, (at + 1) * count));
    const scores = rows.map((_, rank) => similarity[at * count + rank] / 65535 * 2 - 1);
    map.mark(rows);
    byId("example").value = at !== undefined && at < examples ? String(at) : "";
    byId("neighbours-of").textContent = rows.length ? `Nearest to ${map.keys[row]}`
      : `The neighbours of ${map.keys[row]} are not in this page: with many entities, it has those of some. Search for them with \`eventvec search\`.`;
    const head = element("thead", {}, element("tr", {}, ...["", "entity", "similarity", "events"].map(name => element("th", { scope: "col" }, name))));
    const lines = [row, ...(rows.length ? rows : [])].map((each, rank) => {
      const button = element("button", { type: "button", title: "Show its neighbours" }, map.keys[each]);
      button.addEventListener("click", () => map.choose(each));
      const history = known && known.starts.get(each);
      return element("tr", {}, element("td", {}, rank ? String(rank) : "chosen"), element("td", {}, button),
        element("td", {}, rank ? scores[rank - 1].toFixed(3) : ""), element("td", {}, history ? history.total.toLocaleString("en") : "history not in this page"));
    });
    byId("neighbour-table").replaceChildren(head, element("tbody", {}, ...lines));
    drawTimelines([row, ...rows]);
  }

  function drawTimelines(rows) {
    const box = byId("timelines"), caption = byId("timelines-caption");
    if (!known) { caption.textContent = "The page was written without the events, so that it has no histories."; return; }
    const lines = rows.filter(row => known.starts.has(row));
    if (!lines.length) { Plotly.purge(box); box.style.height = "0"; caption.textContent = "The page has the histories of some entities only, not of these."; return; }
    const column = known.columns[byId("event-colour").value || 0], own = column && column.kind === "names" ? column.names.length + 1 : 1;
    const traces = Array.from({ length: own }, () => ({ x: [], y: [], text: [], values: [] }));
    lines.forEach((row, line) => {
      const { start, length } = known.starts.get(row);
      for (let event = start; event < start + length; event++) {
        const cell = column ? column.cells[event] : 0, trace = traces[own > 1 ? (cell + own - 1) % own : 0];
        const time = timeOf(event), name = !column ? "" : own > 1 ? column.names[cell - 1] || "other or missing" : isNaN(cell) ? "missing" : number(cell);
        trace.x.push(time);
        trace.y.push(line);
        trace.values.push(cell);
        trace.text.push(escaped(`${map.keys[row]} · ${histories.clock ? dated(time) : number(time)}${column ? ` · ${column.name}: ${name}` : ""}`));
      }
    });
    const symbol = { symbol: "line-ns-open", size: 17, line: { width: 2 } };
    const figure = traces.map((trace, at) => ({ type: "scatter", mode: "markers", x: trace.x, y: trace.y, text: trace.text, hoverinfo: "text",
      name: own > 1 ? escaped(shortened(column.names[at] || "other or missing")) : "", showlegend: own > 1,
      marker: own > 1 ? { ...symbol, color: at < own - 1 ? PALETTE[at] : OTHERS, opacity: 0.85 }
        : { ...symbol, color: column ? trace.values : PALETTE[0], ...(column && { cmin: column.ends[0], cmax: column.ends[1], colorscale: RAMP.map((c, s) => [s / (RAMP.length - 1), c]),
          colorbar: { thickness: 10, outlinewidth: 0, title: { text: escaped(column.name), side: "right" } } }) } }));
    const names = lines.map((row, line) => { const key = escaped(shortened(map.keys[row])); return line ? key : `<b>${key}</b>`; });
    box.dataset.height = 120 + 34 * lines.length;
    box.style.height = `${box.dataset.height}px`;
    drawChart("timelines", { data: figure.filter(trace => trace.x.length), layout: {
      xaxis: { type: histories.clock ? "date" : "linear", title: { text: "time" } },
      yaxis: { tickvals: lines.map((_, line) => line), ticktext: names, range: [lines.length - 0.4, -0.6], showgrid: false, zeroline: false },
      legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 }, margin: { l: 10, r: 14, t: 34, b: 50 } } });
    const cut = lines.some(row => known.starts.get(row).total > known.starts.get(row).length);
    caption.textContent = `Each mark is an event; the first line is the chosen entity${cut ? `. Of longer histories, the last ${histories.longest} events are shown` : ""}.`
      + (lines.length < rows.length ? " The page has the histories of some entities only." : "");
  }

  const chooser = byId("example");
  chooser.append(element("option", { value: "", disabled: true }, "chosen on the map"));
  for (let at = 0; at < examples; at++) chooser.append(element("option", { value: String(at) }, `${at + 1}: ${map.keys[queries[at]]}`));
  chooser.addEventListener("change", () => map.choose(queries[chooser.value]));
  const colours = byId("event-colour");
  if (known) known.columns.forEach((column, at) => colours.append(element("option", { value: String(at) }, column.name)));
  byId("timeline-colour").hidden = !known || !known.columns.length;
  colours.addEventListener("change", () => show(shown));
  redraws.push(() => show(shown));
  return { show };
})();
if (timelines) map.choose(decode(data.neighbours.queries, Uint32Array)[0]);
