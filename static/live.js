// Forms that show each choice at once: htmx asks for the page and puts its main part in place of the old one.
"use strict";

(() => {
  const { htmx } = window;
  htmx.config.refreshOnHistoryMiss = true; // going back loads the page as it was
  const said = document.createElement("p");
  said.className = "visually-hidden";
  said.setAttribute("role", "status");
  document.body.append(said);

  // What a chart highlights is drawn by its own script: all that remains to do is to keep it in the address.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const field = event.detail.requestConfig.triggeringEvent?.target;
    if (!field?.matches?.("[data-highlight]")) return;
    event.preventDefault();
    const address = new URL(location.href);
    if (field.value) address.searchParams.set(field.name, field.value);
    else address.searchParams.delete(field.name);
    history.replaceState(history.state, "", address);
  });

  // Those who hear the page are told that it has changed, and to what.
  document.addEventListener("htmx:afterSettle", () => {
    const heading = document.querySelector("main h2") ?? document.querySelector("main h1");
    said.textContent = `Shown now: ${heading.textContent.trim().replace(/\s+/g, " ")}`;
  });
})();
