/** The panels of a dashboard as Grafana's own components draw them; Prometheus answers. See dashboard.py. */
import { applyNullInsertThreshold, createTheme, dateTime, FieldType, getDisplayProcessor, rangeUtil, ThemeContext } from "@grafana/data";
import { GlobalStyles, PanelChrome, Text, TimeSeries } from "@grafana/ui";
import { createRoot } from "react-dom/client";
import "@fontsource/inter/400.css";
import "@fontsource/inter/500.css";

// Grafana's grid: its columns, and pixels of a row and between two panels.
const COLUMNS = 24, ROW = 30, GAP = 8;
// What a dashboard does not name has these defaults of Grafana's panel.
const LEGEND = { showLegend: true, displayMode: "list", placement: "bottom", calcs: [] };
const STYLE = { drawStyle: "line", lineWidth: 1, fillOpacity: 0, pointSize: 5, showPoints: "auto" };

const { dashboard, end, prometheus, scrape } = window.shown;
const theme = createTheme({ colors: { mode: "dark" } });
const range = rangeUtil.convertRawToRange(dashboard.time);
const length = range.to.diff(range.from);
range.to = dateTime(end * 1000);
range.from = dateTime(end * 1000 - length);

/** Returns the seconds between two points, and of $__rate_interval, as Grafana chooses them for a panel's width. */
function seconds(width) {
  const step = rangeUtil.calculateInterval(range, width, `${scrape}s`).intervalMs / 1000;
  return { step, rate: Math.max(step + scrape, 4 * scrape) };
}

async function ask(expr, step) {
  const times = { start: Math.floor(range.from / 1000 / step) * step, end: Math.floor(end / step) * step, step };
  const answer = await fetch(`${prometheus}/api/v1/query_range?${new URLSearchParams({ query: expr, ...times })}`);
  const { error, data } = await answer.json();
  if (error) throw new Error(`${expr}: ${error}`);
  return data.result;
}

async function series(target, width) {
  const { step, rate } = seconds(width);
  const found = await ask(target.expr.replaceAll("$__rate_interval", `${rate}s`).replaceAll("$job", "triton"), step);
  return found.map(({ metric, values }) => ({
    name: target.legendFormat.replace(/{{(\w+)}}/g, (_, label) => metric[label]),
    times: values.map(([time]) => time * 1000),
    values: values.map(([, value]) => Number(value)),
    interval: step * 1000,
  }));
}

function frame({ name, times, values, interval }, seriesIndex, panel) {
  const { defaults } = panel.fieldConfig;
  const config = { color: { mode: "palette-classic" }, ...defaults, custom: { ...STYLE, ...defaults.custom }, displayNameFromDS: name };
  const field = { name: "Value", type: FieldType.number, config, values, state: { seriesIndex } };
  field.display = getDisplayProcessor({ field, theme });
  const time = { name: "Time", type: FieldType.time, config: { interval }, values: times };
  return applyNullInsertThreshold({ frame: { fields: [time, field], length: times.length } }); // gaps stay gaps
}

async function drawn(panel, column) {
  if (panel.type !== "timeseries" || panel.fieldConfig.overrides.length) throw new Error(`${panel.title}: page.jsx draws no such panel`);
  const { x, y, w, h } = panel.gridPos;
  const place = { left: x * column, top: y * (ROW + GAP), width: w * column - GAP, height: h * (ROW + GAP) - GAP };
  const found = (await Promise.all(panel.targets.map((target) => series(target, place.width)))).flat();
  if (!found.length) throw new Error(`${panel.title}: Prometheus has nothing`);
  const frames = found.map((one, index) => frame(one, index, panel));
  return (
    <div key={panel.id} style={{ position: "absolute", ...place }}>
      <PanelChrome title={panel.title} width={place.width} height={place.height}>
        {(width, height) => <TimeSeries {...{ frames, width, height }} timeRange={range} timeZone="utc" legend={LEGEND} />}
      </PanelChrome>
    </div>
  );
}

async function draw() {
  await Promise.all([400, 500].map((weight) => document.fonts.load(`${weight} 12px Inter`)));
  const column = (innerWidth - GAP) / COLUMNS;
  const panels = await Promise.all(dashboard.panels.map((panel) => drawn(panel, column)));
  const rows = Math.max(...dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  document.body.style.margin = 0;
  createRoot(document.body).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ padding: GAP }}>
        <Text element="h1" variant="h4">{dashboard.title}</Text>
        <div style={{ position: "relative", marginTop: GAP, height: rows * (ROW + GAP) - GAP }}>{panels}</div>
      </div>
    </ThemeContext.Provider>,
  );
}

draw();
