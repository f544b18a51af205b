// Charts: follows a line under the pointer, and on request puts Plotly's interactive form in a drawing's place.
"use strict";

(() => {
  const { nonce } = document.currentScript; // by which the page may run a script
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, showTips: false };
  let plotly = null;

  // Plotly's script, fetched once, when somebody means to explore a chart.
  function load(address) {
    plotly ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = address;
      script.nonce = nonce;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => { plotly = null; reject(new Error(`${address} did not load`)); };
      document.head.append(script);
    });
    return plotly;
  }

  // The figure with the colours that the stylesheet's tokens have now.
  function colour(json) {
    const style = getComputedStyle(document.documentElement);
    return JSON.parse(json, (_key, value) => {
      const token = typeof value === "string" ? /^var\((--[a-z-]+)\)$/.exec(value) : null;
      return token ? style.getPropertyValue(token[1]).trim() : value;
    });
  }

  const chosen = () => document.querySelector("select[data-highlight]")?.value ?? "";

  // Bring the series of `key` to the fore, in drawings and in tables; none for "".
  function follow(key) {
    document.querySelectorAll(".chart svg").forEach((svg) => {
      let any = false;
      svg.querySelectorAll("g[data-key]").forEach((group) => {
        const same = key !== "" && group.dataset.key === key;
        group.classList.toggle("followed", same);
        any ||= same;
      });
      svg.classList.toggle("followed", any);
    });
    document.querySelectorAll("tr[data-model]").forEach((row) => {
      row.classList.toggle("chosen", key !== "" && row.dataset.model === key);
    });
  }

  // What the points of a series say, for who does not see them.
  function say(figure, key) {
    const group = `.chart-whole g[data-key="${CSS.escape(key)}"]`;
    const titles = key ? [...figure.querySelectorAll(`${group} :is(circle, path) > title`)] : [];
    const sentences = titles.map(({ textContent: text }, place) => (place ? text.slice(text.indexOf(": ") + 2) : text));
    figure.querySelector("[role=status]").textContent = sentences.join(", ");
  }

  async function draw(figure) {
    const box = figure.querySelector(".chart-plot");
    const { data, layout, height } = colour(box.dataset.figure);
    box.style.height = `${height}px`;
    await window.Plotly.react(box, data, layout, CONFIG);
  }

  async function explore(figure, button) {
    const box = figure.querySelector(".chart-plot");
    const [answer] = await Promise.all([fetch(button.dataset.explore), load(button.dataset.script)]);
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    box.dataset.figure = await answer.text();
    box.hidden = false;
    figure.querySelector(".chart-picture").hidden = true;
    await draw(figure);
    box.on("plotly_click", ({ points: [{ customdata }] }) => { if (customdata?.[0]) window.location.assign(customdata[0]); });
    box.on("plotly_hover", ({ points: [{ customdata }] }) => { if (customdata?.[1]) follow(customdata[1]); });
    box.on("plotly_unhover", () => follow(chosen()));
  }

  async function toggle(button) {
    const figure = button.closest("figure");
    const box = figure.querySelector(".chart-plot");
    const status = figure.querySelector("[role=status]");
    const wanted = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(wanted));
    if (!wanted) {
      box.hidden = true;
      figure.querySelector(".chart-picture").hidden = false;
      return;
    }
    status.textContent = "Loading the interactive chart …";
    try {
      await explore(figure, button);
      status.textContent = "";
    } catch (error) {
      button.setAttribute("aria-pressed", "false");
      status.textContent = `The interactive chart cannot be shown: ${error.message}. The drawing and the table have its numbers.`;
    }
  }

  document.addEventListener("click", ({ target }) => {
    const button = target.closest?.("button[data-explore]");
    if (button) toggle(button);
  });
  // Who moves a mouse to the button is about to press it: the script is on its way by then.
  document.addEventListener("pointerover", ({ target, pointerType }) => {
    const button = pointerType === "mouse" && target.closest?.("button[data-explore]");
    if (button) load(button.dataset.script).catch(() => {});
    const group = target.closest?.(".chart svg g[data-key]");
    if (group) follow(group.dataset.key);
  });
  document.addEventListener("pointerout", ({ target, relatedTarget }) => {
    if (target.closest?.("g[data-key]") && !relatedTarget?.closest?.("g[data-key]")) follow(chosen());
  });
  document.addEventListener("change", ({ target }) => {
    if (!target.matches("select[data-highlight]")) return;
    follow(target.value);
    document.querySelectorAll("figure.chart").forEach((figure) => say(figure, target.value));
  });
  dark.addEventListener("change", () => {
    document.querySelectorAll("figure.chart").forEach((figure) => {
      if (!figure.querySelector(".chart-plot").hidden) draw(figure);
    });
  });
})();
