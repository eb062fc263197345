// What the map and the neighbours share: colours, and how data, times and numbers are read.
const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const byId = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PALETTE = data.palette, OTHERS = "#9a8f80", MISSING = "#8d959e";
const RAMP = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];

// Returns the numbers in a text of base 64, in the type of a typed array.
function decode(text, Kind) {
  return new Kind(Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer);
}

// Returns an element with properties and children; texts are never read as HTML.
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// Returns a time in milliseconds since 1970 as text, without parts that are zero.
function dated(milliseconds) {
  const time = new Date(milliseconds);
  return isNaN(time) ? "" : time.toISOString().replace("T", " ").replace(/(:00)?\.\d+Z$/, "").replace(/ 00:00$/, "");
}

// Returns a number as text; years and other numbers of four digits have no comma.
function number(value) {
  const rounded = Number.isInteger(value) ? value : Number(value.toPrecision(4));
  return rounded.toLocaleString("en", { maximumFractionDigits: 6, useGrouping: Math.abs(rounded) >= 10000 });
}

// Returns a spot of a colour.
function swatch(colour) {
  const spot = element("span", { className: "swatch" });
  spot.style.background = colour;
  return spot;
}

// Returns a scale of colours from one number to another.
function ramp(low, high) {
  const scale = element("span", { className: "ramp" });
  scale.style.background = `linear-gradient(to right, ${RAMP.join(", ")})`;
  return [low, scale, high];
}

// The map: points on a canvas that can be moved, enlarged, coloured, searched and selected.
// Discs are blended into the pixels directly, which is fast without a graphics card and needs no compiled code, which
// the security policy of the page forbids.
const map = (() => {
  const px = Float32Array.from(decode(data.map.x, Uint16Array), v => v / 65535);
  const py = Float32Array.from(decode(data.map.y, Uint16Array), v => v / 65535);
  const n = px.length, keys = data.map.keys, canvas = byId("map"), context = canvas.getContext("2d"), tip = byId("tip");
  const width = px.reduce((a, b) => Math.max(a, b), 0), height = py.reduce((a, b) => Math.max(a, b), 0);
  const columns = data.map.columns.map(column => ({ ...column, cells: column.kind === "names"
    ? decode(column.codes, { 8: Uint8Array, 16: Uint16Array, 32: Uint32Array }[column.bits])
    : decode(column.values, column.kind === "time" ? Float64Array : Float32Array) }));
  const tint = new Uint8Array(n), selected = new Uint8Array(n);
  let tints = [], count = 0, mode = "move", chosen = -1, near = [], outline = [], pending = false, image = null;
  const view = { x: 0.5, y: 0.5, scale: 1 };  // the centre, and CSS pixels per unit

  // A grid of cells over the unit square lists the points of each, so that those near a place are found at once.
  const GRID = 128, cellOf = i => Math.min(GRID - 1, px[i] * GRID | 0) * GRID + Math.min(GRID - 1, py[i] * GRID | 0);
  const starts = new Uint32Array(GRID * GRID + 1), listed = new Uint32Array(n);
  for (let i = 0; i < n; i++) starts[cellOf(i) + 1]++;
  for (let c = 0; c < GRID * GRID; c++) starts[c + 1] += starts[c];
  for (let i = 0, next = starts.slice(); i < n; i++) listed[next[cellOf(i)]++] = i;

  function cell(column, i) {
    const value = column.cells[i];
    if (column.kind === "names") return value ? column.names[value - 1] : "missing";
    return isNaN(value) ? "missing" : column.kind === "time" ? dated(value) : number(value);
  }

  function rgb(hex) { return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)); }

  function paintColumn() {
    const column = columns[byId("colour").value], legend = byId("legend");
    legend.replaceChildren();
    const group = (name, size, colour, test) => {
      const button = element("button", { type: "button", title: "Select this group" }, swatch(colour), `${name} (${size.toLocaleString("en")})`);
      button.addEventListener("click", event => select(test, event.shiftKey));
      legend.append(button);
    };
    if (column.kind === "names") {
      const own = column.names.length <= PALETTE.length ? column.names.length : PALETTE.length - 1;
      tints = [rgb(MISSING), ...PALETTE.slice(0, own).map(rgb), rgb(OTHERS)];
      for (let i = 0; i < n; i++) tint[i] = Math.min(column.cells[i], own + 1);
      column.names.slice(0, own).forEach((name, at) => group(name, column.counts[at], PALETTE[at], i => column.cells[i] === at + 1));
      const rest = column.counts.slice(own).reduce((a, b) => a + b, 0);
      if (rest) group(`${column.names.length - own} others`, rest, OTHERS, i => column.cells[i] > own);
    } else {
      const [low, high] = column.ends, shades = 64, last = RAMP.length - 1;
      tints = [rgb(MISSING)];
      for (let s = 0; s < shades; s++) {
        const at = s / (shades - 1) * last, from = rgb(RAMP[Math.floor(at)]), to = rgb(RAMP[Math.ceil(at)]);
        tints.push(from.map((value, c) => value + (to[c] - value) * (at % 1)));
      }
      for (let i = 0; i < n; i++) {
        const value = column.cells[i];
        tint[i] = isNaN(value) ? 0 : 1 + Math.max(0, Math.min(shades - 1, Math.round((value - low) / (high - low || 1) * (shades - 1))));
      }
      legend.append(...ramp(...column.ends.map(value => column.kind === "time" ? dated(value) : number(value))));
    }
    if (column.missing) group("missing", column.missing, MISSING, i => tint[i] === 0);
    paint();
  }

  // Returns the pixels of a disc, as places in the image and shares of 256.
  function disc(radius, across, opacity) {
    const places = [], shares = [], reach = Math.ceil(radius);
    for (let y = -reach; y <= reach; y++) for (let x = -reach; x <= reach; x++) {
      const share = Math.round(256 * opacity * Math.max(0, Math.min(1, radius + 0.5 - Math.hypot(x, y))));
      if (share > 8) { places.push(y * across + x); shares.push(share); }
    }
    return [Int32Array.from(places), Int32Array.from(shares), reach];
  }

  function paint() { if (!pending) { pending = true; requestAnimationFrame(draw); } }

  function draw() {
    pending = false;
    const began = performance.now(), ratio = Math.min(devicePixelRatio || 1, 2);
    const w = Math.round(canvas.clientWidth * ratio), h = Math.round(canvas.clientHeight * ratio);
    if (!w || !h) return;
    if (canvas.width !== w || canvas.height !== h || !image) { canvas.width = w; canvas.height = h; image = context.createImageData(w, h); }
    const pixels = new Uint32Array(image.data.buffer), [r, g, b] = rgb(css("--card"));
    pixels.fill(255 << 24 | b << 16 | g << 8 | r);
    const zoom = Math.min(2, Math.max(1, Math.sqrt(view.scale / fitted())));
    const radius = (n > 50000 ? 1.1 : n > 8000 ? 1.7 : n > 1500 ? 2.4 : 3.4) * zoom * ratio * Math.max(0.7, Math.min(1, canvas.clientWidth / 700)), opacity = n > 50000 ? 0.6 : 0.75;
    const scale = view.scale * ratio, left = w / 2 - view.x * scale, top = h / 2 + view.y * scale;
    const layers = count ? [[disc(radius, w, opacity * 0.16), i => !selected[i]], [disc(radius * 1.15, w, 1), i => selected[i]]]
      : [[disc(radius * 0.8, w, opacity * 0.5), i => tint[i] === 0], [disc(radius, w, opacity), i => tint[i] !== 0]];
    for (const [[places, shares, reach], belongs] of layers) for (let i = 0; i < n; i++) {
      if (!belongs(i)) continue;
      const x = left + px[i] * scale | 0, y = top - py[i] * scale | 0;
      if (x < reach || y < reach || x >= w - reach || y >= h - reach) continue;
      const at = y * w + x, [red, green, blue] = tints[tint[i]];
      for (let k = 0; k < places.length; k++) {
        const pixel = pixels[at + places[k]], share = shares[k];
        const or = pixel & 255, og = pixel >> 8 & 255, ob = pixel >> 16 & 255;
        pixels[at + places[k]] = 255 << 24 | ob + ((blue - ob) * share >> 8) << 16 | og + ((green - og) * share >> 8) << 8 | or + ((red - or) * share >> 8);
      }
    }
    context.putImageData(image, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.strokeStyle = css("--ink");
    for (const i of near) ring(i, 6, 1.5);
    if (chosen >= 0) ring(chosen, 9, 3);
    if (outline.length) {
      context.lineWidth = 1.5;
      context.setLineDash([5, 4]);
      context.beginPath();
      outline.forEach(([x, y]) => context.lineTo(x, y));
      context.closePath();
      context.stroke();
      context.setLineDash([]);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    canvas.dataset.milliseconds = (performance.now() - began).toFixed(1);
  }

  function ring(i, radius, line) {
    const [x, y] = placeOf(i);
    context.lineWidth = line;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.stroke();
  }

  const placeOf = i => [canvas.clientWidth / 2 + (px[i] - view.x) * view.scale, canvas.clientHeight / 2 - (py[i] - view.y) * view.scale];
  const unitOf = (x, y) => [view.x + (x - canvas.clientWidth / 2) / view.scale, view.y - (y - canvas.clientHeight / 2) / view.scale];
  const fitted = () => Math.min(canvas.clientWidth / (width || 1), canvas.clientHeight / (height || 1)) * 0.94;

  function showAll() { Object.assign(view, { x: width / 2, y: height / 2, scale: fitted() }); paint(); }

  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const [ux, uy] = unitOf(x, y);
    view.scale = Math.max(fitted() / 2, Math.min(fitted() * 400, view.scale * factor));
    view.x = ux - (x - canvas.clientWidth / 2) / view.scale;
    view.y = uy + (y - canvas.clientHeight / 2) / view.scale;
    paint();
  }

  // Returns the point nearest to a place within some pixels, or -1.
  function nearest(x, y, within) {
    const [ux, uy] = unitOf(x, y), reach = within / view.scale, cut = v => Math.max(0, Math.min(GRID - 1, v * GRID | 0));
    let best = -1, least = reach * reach;
    for (let a = cut(ux - reach); a <= cut(ux + reach); a++) for (let c = a * GRID + cut(uy - reach); c <= a * GRID + cut(uy + reach); c++)
      for (let at = starts[c]; at < starts[c + 1]; at++) {
        const i = listed[at], distance = (px[i] - ux) ** 2 + (py[i] - uy) ** 2;
        if (distance < least) { least = distance; best = i; }
      }
    return best;
  }

  function select(test, adds = false) {
    count = 0;
    for (let i = 0; i < n; i++) { selected[i] = adds && selected[i] || test(i) ? 1 : 0; count += selected[i]; }
    byId("selected").textContent = count ? `${count.toLocaleString("en")} of ${n.toLocaleString("en")} selected.` : "No entity is selected.";
    byId("export").disabled = byId("clear").disabled = !count;
    paint();
  }

  // Selects the points inside an outline in pixels, by the number of its edges on one side of each point.
  function selectInside(corners, adds) {
    const edge = corners.map(([x, y]) => unitOf(x, y)), xs = edge.map(e => e[0]), ys = edge.map(e => e[1]);
    const [low, high, bottom, top] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    select(i => {
      const x = px[i], y = py[i];
      if (x < low || x > high || y < bottom || y > top) return false;
      let inside = false;
      for (let a = 0, b = edge.length - 1; a < edge.length; b = a++)
        if (ys[a] > y !== ys[b] > y && x < (xs[b] - xs[a]) * (y - ys[a]) / (ys[b] - ys[a]) + xs[a]) inside = !inside;
      return inside;
    }, adds);
  }

  function showTip(i, x, y) {
    tip.hidden = i < 0;
    if (i < 0) return;
    const by = columns[byId("colour").value], told = [by, ...columns.filter(column => column !== by)].slice(0, 6);
    tip.replaceChildren(element("strong", {}, keys[i]), ...told.map(column => element("span", {}, `${column.name}: ${cell(column, i)}`)));
    const left = x > canvas.clientWidth / 2 ? x - 14 - tip.offsetWidth : x + 14;
    const top = y > canvas.clientHeight / 2 ? y - 10 - tip.offsetHeight : y + 10;
    tip.style.left = `${Math.max(0, Math.min(canvas.clientWidth - tip.offsetWidth, left))}px`;
    tip.style.top = `${Math.max(0, top)}px`;
  }

  function choose(i) {
    chosen = i;
    byId("chosen").replaceChildren(...(i < 0 ? [] : [element("strong", {}, keys[i]), ` · ${columns.map(column => `${column.name}: ${cell(column, i)}`).join(" · ")}`]));
    if (i >= 0) neighbours.show(i);
    paint();
  }

  let drag = null;
  canvas.addEventListener("pointerdown", event => {
    drag = { x: event.offsetX, y: event.offsetY, at: { ...view }, moved: false };
    canvas.setPointerCapture(event.pointerId);
    if (mode !== "move") outline = [[drag.x, drag.y]];
  });
  canvas.addEventListener("pointermove", event => {
    const x = event.offsetX, y = event.offsetY;
    if (!drag) return showTip(nearest(x, y, 9), x, y);
    drag.moved ||= Math.hypot(x - drag.x, y - drag.y) > 4;
    if (!drag.moved) return undefined;
    tip.hidden = true;
    if (mode === "move") Object.assign(view, { x: drag.at.x - (x - drag.x) / view.scale, y: drag.at.y + (y - drag.y) / view.scale });
    else if (mode === "box") outline = [[drag.x, drag.y], [x, drag.y], [x, y], [drag.x, y]];
    else if (Math.hypot(x - outline.at(-1)[0], y - outline.at(-1)[1]) > 3) outline.push([x, y]);
    return paint();
  });
  canvas.addEventListener("pointerup", event => {
    const at = drag;
    drag = null;
    if (at && !at.moved) {
      const i = nearest(event.offsetX, event.offsetY, event.pointerType === "touch" ? 18 : 9);
      showTip(i, event.offsetX, event.offsetY);
      if (i >= 0) choose(i);
    } else if (outline.length > 2) selectInside(outline, event.shiftKey);
    outline = [];
    paint();
  });
  canvas.addEventListener("pointercancel", () => { drag = null; outline = []; paint(); });
  canvas.addEventListener("pointerleave", () => { if (!drag) tip.hidden = true; });
  canvas.addEventListener("wheel", event => {
    if (document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", event => {
    const step = 50 / view.scale;
    const acts = { ArrowLeft: () => view.x -= step, ArrowRight: () => view.x += step, ArrowUp: () => view.y += step, ArrowDown: () => view.y -= step,
      "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: showAll };
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
    paint();
  });
  for (const button of document.querySelectorAll("[data-mode]")) button.addEventListener("click", () => {
    mode = button.dataset.mode;
    canvas.classList.toggle("selecting", mode !== "move");
    for (const each of document.querySelectorAll("[data-mode]")) each.setAttribute("aria-pressed", each === button);
  });
  byId("zoom-in").addEventListener("click", () => zoom(1.6));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.6));
  byId("zoom-all").addEventListener("click", showAll);
  byId("clear").addEventListener("click", () => select(() => false));
  byId("colour").addEventListener("change", paintColumn);
  byId("export").addEventListener("click", () => {
    const quoted = text => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    const rows = [...new Set(keys.filter((_, i) => selected[i]))];
    const file = new Blob([`${[data.map.key, ...rows].map(quoted).join("\n")}\n`], { type: "text/csv" });
    const link = element("a", { href: URL.createObjectURL(file), download: "selected.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
  byId("search").addEventListener("input", () => {
    const text = byId("search").value.trim().toLowerCase(), hits = [];
    if (text) for (let i = 0; i < n && hits.length < 400; i++) if (keys[i].toLowerCase().includes(text)) hits.push(i);
    const rank = i => { const key = keys[i].toLowerCase(); return key === text ? 0 : key.startsWith(text) ? 1 : 2; };
    hits.sort((a, b) => rank(a) - rank(b));
    byId("found").replaceChildren(...hits.slice(0, 8).map(i => {
      const button = element("button", { type: "button" }, keys[i]);
      button.addEventListener("click", () => { Object.assign(view, { x: px[i], y: py[i], scale: Math.max(view.scale, fitted() * 2) }); choose(i); });
      return button;
    }), ...(text && !hits.length ? ["No key contains this."] : hits.length > 8 ? [`and ${hits.length === 400 ? "many" : hits.length - 8} more`] : []));
  });
  new ResizeObserver(() => { if (view.scale === 1) showAll(); else paint(); }).observe(canvas);
  darkScheme.addEventListener("change", paint);
  columns.forEach((column, at) => byId("colour").append(element("option", { value: String(at) }, column.name)));
  paintColumn();
  showAll();
  return { keys, choose, mark: rows => { near = rows; paint(); } };
})();
