// The nearest neighbours of an entity: a table with the history of each as marks along a line of time.
const neighbours = (() => {
  const { count, examples, histories } = data.neighbours, table = byId("neighbour-table");
  const queries = decode(data.neighbours.queries, Uint32Array), nearest = decode(data.neighbours.nearest, Uint32Array);
  const similarity = decode(data.neighbours.similarity, Uint16Array), places = new Map(Array.from(queries, (row, at) => [row, at]));
  const columns = histories ? histories.columns.map(column => ({ ...column, cells: column.kind === "names" ? decode(column.codes, Uint8Array) : decode(column.values, Float32Array) })) : [];
  const times = histories && decode(histories.times, Uint32Array), known = new Map();
  if (histories) {
    const lengths = decode(histories.lengths, Uint16Array), totals = decode(histories.totals, Uint32Array);
    let start = 0;
    decode(histories.rows, Uint32Array).forEach((row, at) => { known.set(row, { start, end: start += lengths[at], total: totals[at] }); });
  }
  const { words } = data.neighbours, sentences = new Map();
  if (words) {
    const lengths = decode(words.lengths, Uint16Array), ids = decode(words.ids, Uint32Array);
    let start = 0;
    decode(words.rows, Uint32Array).forEach((row, at) => sentences.set(row, ids.subarray(start, start += lengths[at])));
  }
  const timeOf = event => histories.start + times[event] * histories.step;
  const timeText = time => histories.clock ? dated(time) : number(time);
  let shown = queries[0];

  const valueOf = (column, event) => {
    const cell = column.cells[event];
    return column.kind === "names" ? column.names[cell - 1] || "other or missing" : isNaN(cell) ? "missing" : number(cell);
  };

  function colourOf(column, event) {
    if (!column) return PALETTE[0];
    const cell = column.cells[event], [low, high] = column.ends || [];
    if (column.kind === "names") return cell ? PALETTE[cell - 1] : OTHERS;
    return isNaN(cell) ? MISSING : RAMP[Math.max(0, Math.min(RAMP.length - 1, Math.round((cell - low) / (high - low || 1) * (RAMP.length - 1))))];
  }

  // Returns what is telling about a history, or what another one has in common with it.
  function inWords(row, like) {
    if (!sentences.has(row) || !sentences.has(like)) return "";
    const same = new Set(sentences.get(like)), ids = Array.from(sentences.get(row)).filter(id => same.has(id)).slice(0, words.shown);
    return (row === like || !ids.length ? "" : "Both: ") + ids.map(id => words.texts[id]).join(" ");
  }

  // Returns marks at the times of a history; the pointer shows what is known of the nearest event.
  function strip(row, { start, end }, column, low, span) {
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg"), marks = new Map();
    for (let event = start; event < end; event++) {
      const colour = colourOf(column, event);
      marks.set(colour, `${marks.get(colour) || ""}M${((timeOf(event) - low) / span * 994 + 3).toFixed(1)} 3v16`);
    }
    picture.setAttribute("viewBox", "0 0 1000 22");
    picture.setAttribute("preserveAspectRatio", "none");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `${end - start} events`);
    for (const [colour, d] of marks) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", d);
      path.setAttribute("stroke", colour);
      picture.append(path);
    }
    picture.addEventListener("pointermove", pointer => {
      const box = picture.getBoundingClientRect(), at = low + ((pointer.clientX - box.left) / box.width * 1000 - 3) / 994 * span;
      let best = start;
      for (let event = start; event < end; event++) if (Math.abs(timeOf(event) - at) < Math.abs(timeOf(best) - at)) best = event;
      byId("event").textContent = [map.keys[row], timeText(timeOf(best)), ...columns.map(each => `${each.name}: ${valueOf(each, best)}`)].join(" · ");
    });
    return picture;
  }

  function show(row) {
    shown = row;
    const at = places.get(row), rows = at === undefined ? [] : Array.from(nearest.subarray(at * count, (at + 1) * count));
    const lines = [row, ...rows], parts = lines.map(each => known.get(each)).filter(Boolean), column = columns[byId("event-colour").value || 0];
    let low = Infinity, high = -Infinity, cut = false;
    for (const { start, end, total } of parts) {
      for (let event = start; event < end; event++) { low = Math.min(low, timeOf(event)); high = Math.max(high, timeOf(event)); }
      cut ||= total > end - start;
    }
    map.mark(rows);
    byId("example").value = at !== undefined && at < examples ? String(at) : "";
    const body = lines.flatMap((each, rank) => {
      const button = element("button", { type: "button", title: "Show its neighbours" }, map.keys[each]), history = known.get(each);
      button.addEventListener("click", () => map.choose(each));
      const told = inWords(each, row), cells = element("tr", { className: `${rank ? "" : "example"} ${told && "told"}` }, element("td", {}, button),
        element("td", { className: "number" }, rank ? (similarity[at * count + rank - 1] / 65535 * 2 - 1).toFixed(3) : ""),
        element("td", { className: "number" }, history ? history.total.toLocaleString("en") : ""),
        element("td", { className: "history" }, history ? strip(each, history, column, low, high - low || 1) : ""));
      return told ? [cells, element("tr", {}, element("td", { className: "words", colSpan: 4 }, told))] : [cells];
    });
    if (parts.length) body.push(element("tr", {}, element("td"), element("td"), element("td"), element("td", { className: "history" },
      element("div", { className: "times" }, ...[low, (low + high) / 2, high].map(time => element("span", {}, timeText(time).slice(0, histories.clock ? 10 : 20)))))));
    const heads = ["entity", "similarity", "events", parts.length ? `events in time${cut ? `, the last ${histories.longest} of each` : ""}` : ""];
    table.replaceChildren(element("thead", {}, element("tr", {}, ...heads.map((head, place) => element("th", { scope: "col", className: place === 1 || place === 2 ? "number" : "" }, head)))),
      element("tbody", {}, ...body));
    byId("event").textContent = at === undefined ? `The neighbours of ${map.keys[row]} are not in this page, which has those of some entities. Search for them with \`eventvec search\`.`
      : histories && parts.length < lines.length ? "The page has the histories of some entities only." : "";
    const legend = byId("event-legend");
    legend.replaceChildren();
    if (column && column.kind === "names") [...column.names, "other or missing"].forEach((name, place) => legend.append(element("span", {}, swatch(PALETTE[place] && place < column.names.length ? PALETTE[place] : OTHERS), name)));
    else if (column) legend.append(...ramp(...column.ends.map(number)));
  }

  const chooser = byId("example");
  chooser.append(element("option", { value: "", disabled: true }, "chosen on the map"));
  for (let at = 0; at < examples; at++) chooser.append(element("option", { value: String(at) }, map.keys[queries[at]]));
  chooser.addEventListener("change", () => map.choose(queries[chooser.value]));
  columns.forEach((column, at) => byId("event-colour").append(element("option", { value: String(at) }, column.name)));
  byId("timeline-colour").hidden = !columns.length;
  byId("event-colour").addEventListener("change", () => show(shown));
  return { show };
})();
map.choose(decode(data.neighbours.queries, Uint32Array)[0]);
