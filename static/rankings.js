// Rankings: keeps address and search in step. Everything else is htmx and plain links.
"use strict";

(() => {
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
  // Of several steps through the history the last counts, and what is asked for after them counts more; but for the
  // progress, which asks for itself.
  let restoring = null;
  document.addEventListener("htmx:historyCacheMiss", ({ detail }) => { restoring?.abort(); restoring = detail.xhr; });
  document.addEventListener("htmx:beforeRequest", ({ target }) => { if (target.id !== "progress") restoring?.abort(); });
  // The search is never replaced, lest it lose what is being typed; links that clear it change the address alone.
  document.addEventListener("htmx:pushedIntoHistory", ({ detail }) => {
    const search = document.getElementById("search");
    if (!search || search === document.activeElement) return;
    search.value = new URL(detail.path, location.href).searchParams.get("q") ?? "";
  });
})();
