// Charts: draws the figures that a page carries as JSON, in the reader's theme, once they come near to being seen.
"use strict";

(() => {
  const NEAR = "400px";
  const NAMED_WIDTH = 510; // pixels of a chart that has room for the names of its points
  const { nonce } = document.currentScript; // by which the page may run a script
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let plotly = null;

  // Plotly's script, fetched once, when the first chart needs it.
  function load(address) {
    plotly ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = address;
      script.nonce = nonce;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => reject(new Error(`${address} did not load`));
      document.head.append(script);
    });
    return plotly;
  }

  // The figure with the colours that the stylesheet's tokens have now.
  function themed(figure) {
    const style = getComputedStyle(document.documentElement);
    return JSON.parse(figure, (_key, value) => {
      const token = typeof value === "string" ? /^var\((--[a-z-]+)\)$/.exec(value) : null;
      return token ? style.getPropertyValue(token[1]).trim() : value;
    });
  }

  // Of a bump chart: the points of a model's line, and a null wherever it breaks off.
  function pointsOf(figure, key) {
    for (const trace of figure.data) {
      if (trace.meta !== "lines") continue;
      const found = [];
      trace.customdata.forEach((of, place) => {
        if (of === key) found.push([trace.x[place], trace.y[place]]);
      });
      if (found.length) return found;
    }
    return [];
  }

  // Draw over all others the line of one model, its names bold, the other lines faint.
  function highlighted(figure, key) {
    const points = key ? pointsOf(figure, key) : [];
    for (const trace of figure.data) {
      if (trace.meta === "lines" && points.length) trace.opacity = 0.4;
      if (trace.meta === "highlight") {
        trace.x = points.map(([x]) => x);
        trace.y = points.map(([, y]) => y);
      }
      if (trace.meta === "names" && points.length) {
        trace.text = trace.text.map((text, place) => (trace.customdata[place] === key ? `<b>${text}</b>` : text));
      }
    }
    return points;
  }

  // Names stand beside points where there is room for them; a pointer names each.
  function withoutNames(figure) {
    figure.data.forEach((trace) => { if (trace.mode === "markers+text") trace.mode = "markers"; });
  }

  function start(box) {
    const json = document.getElementById(`chart-${box.dataset.chart}`).textContent;
    const bar = box.closest("figure").querySelector(".chart-bar");
    const said = bar.querySelector("[role=status]");
    const select = document.querySelector("select[data-highlight]");
    const rows = document.querySelectorAll("tr[data-model]");
    const config = { displayModeBar: false, responsive: true, doubleClick: false, showTips: false };
    let Plotly = null;
    let shown = null; // the key of the line that is highlighted now

    function draw(key) {
      shown = key;
      const figure = themed(json);
      if (box.clientWidth < NAMED_WIDTH) withoutNames(figure);
      const points = highlighted(figure, key);
      rows.forEach((row) => row.classList.toggle("chosen", key !== "" && row.dataset.model === key));
      return Plotly.react(box, figure.data, figure.layout, config).then(() => [figure, points]);
    }

    async function choose() {
      const [figure, points] = await draw(select ? select.value : "");
      const ranks = points
        .filter(([, rank]) => rank !== null)
        .map(([column, rank]) => {
          const { words, among } = figure.layout.meta;
          return `${rank} of ${among[column]} under ${words[column]}`;
        });
      said.textContent = ranks.length ? `${select.selectedOptions[0].textContent}: rank ${ranks.join(", ")}.` : "";
    }

    function over(event) {
      const [{ customdata: key, data }] = event.points;
      if (["lines", "names"].includes(data.meta) && key && key !== shown) draw(key);
    }

    load(box.dataset.plotly).then(async (loaded) => {
      Plotly = loaded;
      await choose();
      box.dataset.drawn = "";
      bar.dataset.ready = "";
      box.on("plotly_hover", over);
      box.addEventListener("mouseleave", () => draw(select ? select.value : ""));
      select?.addEventListener("change", choose);
      dark.addEventListener("change", () => draw(shown));
      bar.querySelectorAll("button[data-format]").forEach((button) => {
        button.addEventListener("click", () => {
          const { width, height } = box.getBoundingClientRect();
          const { format } = button.dataset;
          Plotly.downloadImage(box, { format, filename: box.dataset.chart, width, height, scale: format === "png" ? 2 : 1 });
        });
      });
    }, (error) => {
      bar.dataset.ready = "";
      said.textContent = `The chart cannot be drawn: ${error.message}. The table has its numbers.`;
    });
  }

  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      start(target);
    }
  }, { rootMargin: NEAR });
  const watch = () => document.querySelectorAll("[data-chart]:not([data-watched])").forEach((box) => {
    box.dataset.watched = "";
    watcher.observe(box);
  });
  document.addEventListener("htmx:load", watch);
  watch();
})();
