// Buttons that copy the text of an element; without this script they are not there, and the text can be selected.
"use strict";

(() => {
  const SAID = 3000; // milliseconds that a button says what it did

  function show(root) {
    root.querySelectorAll("button[data-copy]").forEach((button) => { button.hidden = false; });
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    const label = button.dataset.label ??= button.textContent;
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      // A page that is not served securely may not write there: the reader copies what is selected.
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: copy it with Ctrl+C";
    }
    const said = document.getElementById("said");
    if (said) said.textContent = button.textContent;
    setTimeout(() => { button.textContent = label; }, SAID);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button);
  });
  document.addEventListener("htmx:load", ({ detail }) => show(detail.elt));
  document.addEventListener("htmx:oobAfterSwap", () => show(document));
  show(document);
})();
