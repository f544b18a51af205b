// Buttons that copy the text of an element; without this script they are not there, and the text can be selected.
"use strict";

(() => {
  const SAID = 2000; // milliseconds that a button says what it did

  function ready() {
    if (!navigator.clipboard) return;
    document.querySelectorAll("button[data-copy][hidden]").forEach((button) => {
      button.hidden = false;
    });
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const label = button.dataset.label ?? button.textContent;
    button.dataset.label = label;
    try {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied: select the text instead";
    }
    setTimeout(() => { button.textContent = label; }, SAID);
  });
  document.addEventListener("htmx:oobAfterSwap", ready);
  ready();
})();
