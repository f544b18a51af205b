// Rankings: copies citations, and keeps address and search in step. Everything else is htmx and plain links.
"use strict";

(() => {
  // Buttons that copy are of use only where a script runs.
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
    document.getElementById("said").textContent = button.textContent;
    setTimeout(() => { button.textContent = label; }, 3000);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button);
  });
  // A search that ends in the Enter key asks twice for the same view, which is one step to go back over.
  document.addEventListener("htmx:beforeHistoryUpdate", ({ detail }) => {
    if (detail.history.path === location.pathname + location.search) detail.history.type = "replace";
  });
  // What was chosen while an answer was on its way is not to be undone by that answer: the next one has it.
  let newer = false;
  const chosen = (event) => { if (event.target.closest("form.filters")) newer = true; };
  document.addEventListener("change", chosen, true);
  document.addEventListener("input", chosen, true);
  document.addEventListener("htmx:beforeRequest", () => { newer = false; });
  document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
    if (newer && detail.target.closest("form.filters")) detail.shouldSwap = false;
  });
  // The search is never replaced, lest it lose what is being typed; links that clear it change the address alone.
  document.addEventListener("htmx:pushedIntoHistory", ({ detail }) => {
    const search = document.getElementById("search");
    if (!search || search === document.activeElement) return;
    search.value = new URL(detail.path, location.href).searchParams.get("q") ?? "";
  });
  document.addEventListener("htmx:load", ({ detail }) => show(detail.elt));
  show(document);
})();
