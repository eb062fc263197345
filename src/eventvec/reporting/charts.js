// The charts of the page, and what its other scripts share: the data, colours and escaping.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 600px)");
const byId = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PALETTE = data.palette;
const OTHERS = "#9a8f80", MISSING = "#8d959e";
const RAMP = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];

// Returns the numbers in a text of base 64, in the type of a typed array.
function decode(text, Kind) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
}

// Returns text that plotly shows as it is, though it interprets tags and entities.
function escaped(text) {
  return String(text).replace(/[&<>"']/g, letter => `&#${letter.charCodeAt(0)};`);
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

function themed(layout) {
  const out = structuredClone(layout);
  Object.assign(out, { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false,
    font: { family: getComputedStyle(document.body).fontFamily, size: narrow.matches ? 11 : 13, color: css("--ink") },
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") }, align: "left" } });
  for (const axis of ["xaxis", "yaxis"])
    out[axis] = { automargin: true, gridcolor: css("--line"), zerolinecolor: css("--line"), ...out[axis] };
  Object.assign(out.xaxis, { ticks: "outside", ticklen: 4, tickcolor: css("--line") });
  for (const shape of out.shapes || []) shape.line.color = css("--soft");
  return out;
}

// A legend above the chart wraps into as many lines as a phone needs, and the chart grows by them.
function drawChart(id, figure) {
  const layout = themed(figure.layout), box = byId(id);
  box.dataset.height ||= parseInt(box.style.height);
  const entries = layout.showlegend === false ? 0 : figure.data.filter(trace => trace.name && trace.showlegend !== false).length;
  const letters = figure.data.reduce((sum, trace) => sum + (trace.name ? trace.name.length * 6.5 + 52 : 0), 0);
  const lines = entries > 1 ? Math.ceil(letters / Math.max(box.clientWidth - 90, 120)) : 0;
  if (narrow.matches && layout.yaxis.ticktext) layout.yaxis.ticktext = layout.yaxis.ticktext.map(text => text.replace(/ (?=[^<]*<\/b>)/, "<br>"));
  if (lines > 1) layout.margin = { ...layout.margin, t: layout.margin.t + 20 * (lines - 1) };
  box.style.height = `${Number(box.dataset.height) + (lines > 1 ? 20 * (lines - 1) : 0)}px`;
  return Plotly.react(id, figure.data, layout, { responsive: true, displayModeBar: false });
}

function drawCharts() {
  for (const [id, figure] of Object.entries(data.figures)) drawChart(id, figure);
}

for (const details of document.querySelectorAll("details")) details.open = false;
const redraws = [drawCharts];
darkScheme.addEventListener("change", () => redraws.forEach(redraw => redraw()));
drawCharts();
