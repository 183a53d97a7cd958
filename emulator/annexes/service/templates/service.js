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

  const { refresh, events } = document.body.dataset;
  const renew = async () => {
    const content = document.getElementById("content");
    if (document.hidden || content.querySelector("details[open]")) return;  // somebody is filling in a form
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
    if (!answer || !answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content");
    if (fresh && fresh.innerHTML !== content.innerHTML) content.replaceWith(fresh);
  };
  if (refresh) setInterval(renew, Number(refresh));

  if (events) {
    const source = new EventSource(events), log = document.getElementById("log");
    let state = null;
    source.addEventListener("message", message => {
      const { log: line, run } = JSON.parse(message.data);
      if (line !== undefined && line !== null) {
        log.append(`${line}\n`);
        log.scrollTop = log.scrollHeight;
      }
      if (run && state !== null && run.state !== state) { source.close(); location.reload(); }
      if (run) state = run.state;
    });
    source.addEventListener("error", () => { source.close(); setTimeout(() => location.reload(), 3000); });
  }
  root.dataset.ready = "yes";
})();
