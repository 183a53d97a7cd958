"use strict";
(() => {
  const root = document.documentElement;
  const stored = localStorage.getItem("charkha-theme");
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("charkha-theme", root.dataset.theme);
  });
  document.addEventListener("keydown", event => {
    const open = event.key === "Escape" && document.activeElement.closest("details[open]");
    if (!open) return;
    open.open = false;
    open.querySelector("summary").focus();
  });

  const { refresh, events } = document.body.dataset;
  const reachable = part => [...part.querySelectorAll("a, button, input, select, summary, [tabindex]")];
  const isFilledIn = part => part.querySelector("details[open], :checked:not(option), :is(input, select):focus");
  const renew = async id => {
    if (document.hidden || isFilledIn(document.getElementById(id))) return;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
    if (!answer || !answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(id);
    const shown = document.getElementById(id);
    if (!fresh || fresh.innerHTML === shown.innerHTML || isFilledIn(shown)) return;
    const focused = reachable(shown).indexOf(document.activeElement);
    const text = focused >= 0 ? document.activeElement.outerHTML : "";
    shown.replaceWith(fresh);
    if (focused < 0) return;
    const same = reachable(fresh);  // whoever uses the keyboard stays where they are
    (same.find(one => one.outerHTML === text) || same[Math.min(focused, same.length - 1)]).focus();
  };
  if (refresh) setInterval(() => renew("content"), Number(refresh));

  if (events) {
    const source = new EventSource(events), log = document.getElementById("log");
    let state = null, lines = [], isDrawn = true;
    const draw = () => {
      isDrawn = true;
      lines = lines.slice(-1000);  // a run may say more than a browser can hold
      log.textContent = lines.join("\n");
      log.scrollTop = log.scrollHeight;
    };
    source.addEventListener("message", message => {
      const { log: line, run } = JSON.parse(message.data);
      if (line !== undefined && line !== null) {
        lines.push(line);
        if (isDrawn) setTimeout(draw, 200);
        isDrawn = false;
      }
      if (run && state !== null && run.state !== state) { source.close(); location.reload(); }
      else if (run && state !== null) renew("state");
      if (run) state = run.state;
    });
    source.addEventListener("error", () => { source.close(); setTimeout(() => location.reload(), 3000); });
  }
  root.dataset.ready = "yes";
})();
