"use strict";
(() => {
  const root = document.documentElement;

  // --- light and dark: the choice of the reader, else that of the system ---------------------------------------------------
  const stored = (() => { try { return localStorage.getItem("charkha-theme"); } catch { return null; } })();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("charkha-theme", root.dataset.theme); } catch { /* a file may have no storage */ }
  });

  // --- highlight the current section in the navigation ---------------------------------------------------------------------------------------
  const links = new Map([...document.querySelectorAll("nav a")].map(a => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver(entries => {
    const entered = entries.find(entry => entry.isIntersecting);
    if (entered) links.forEach((link, id) => link.classList.toggle("here", id === entered.target.id));
  }, { rootMargin: "-30% 0px -60% 0px" });
  const observe = () => { seen.disconnect(); document.querySelectorAll("[data-section]").forEach(one => seen.observe(one)); };
  observe();

  // --- number formats, as in emulator/units.py -----------------------------------------------------
  const precise = (value, digits) => Math.abs(value) < 999.5 ? String(Number(value.toPrecision(digits))) : value.toFixed(0);
  const scaled = (value, units, last) => {
    for (const [unit, factor] of units) if (Math.abs(value) >= 0.9995 * factor) return `${precise(value / factor, 3)} ${unit}`;
    return `${value.toFixed(0)} ${last}`;
  };
  const duration = ns => ns === null ? "–" : scaled(ns, [["s", 1e9], ["ms", 1e6], ["µs", 1e3]], "ns");
  const size = bytes => {
    for (const [unit, factor] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
      if (bytes >= factor) return `${bytes % factor ? (bytes / factor).toFixed(2) : bytes / factor} ${unit}`;
    return `${bytes} B`;
  };
  const isRound = value => {  // labelled ticks of a log scale: 1, 2 and 5 of each decade
    const leading = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
    return Math.abs(leading - Math.round(leading)) > 1e-6 || [1, 2, 5, 10].includes(Math.round(leading));
  };
  const significant = value => value === null ? "–" : value === 0 ? "0" : precise(value, 3);

  // --- pictures --------------------------------------------------------------------------------------------------
  const style = {
    background: "transparent", font: "system-ui, 'DejaVu Sans', sans-serif", padding: 2,
    view: { stroke: null, continuousHeight: 260 },
    axis: {
      labelColor: "var(--soft)", titleColor: "var(--soft)", gridColor: "var(--grid)", domainColor: "var(--line)",
      tickColor: "var(--line)", labelFontSize: 11, titleFontSize: 11.5, titleFontWeight: 500, labelOverlap: true, tickCount: 6,
    },
    legend: {
      labelColor: "var(--ink)", titleColor: "var(--soft)", labelFontSize: 11.5, titleFontSize: 11.5, orient: "bottom", titleFontWeight: 500,
      labelLimit: 330, symbolStrokeWidth: 2.5, offset: 8, direction: "vertical",
    },
    header: { labelColor: "var(--soft)", titleColor: "var(--soft)" },
    range: { category: [1, 2, 3, 4, 5, 6, 7, 8].map(n => `var(--s${n})`) },
    text: { color: "var(--ink)" }, rule: { color: "var(--soft)" }, line: { strokeWidth: 1.9 }, bar: { color: "var(--s1)" },
  };

  const views = new Map();
  let wanted = {};
  const unpack = async element => {
    const packed = Uint8Array.from(atob(element.textContent.trim()), c => c.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  };

  const rows = columns => {
    const names = Object.keys(columns);
    return (columns[names[0]] ?? []).map((_, at) => Object.fromEntries(names.map(name => [name, columns[name][at]])));
  };
  const chosen = (name, figure) => {
    const { data, choice } = wanted[name];
    const value = figure.querySelector("[data-choice]")?.value;
    return Object.fromEntries(Object.entries(data).map(([key, columns]) => {
      const all = rows(columns);
      return [key, choice && value !== undefined && choice in columns ? all.filter(row => String(row[choice]) === value) : all];
    }));
  };

  const library = async () => {
    if (window.vegaEmbed) return;
    const script = document.createElement("script");
    script.textContent = await unpack(document.getElementById("library"));
    document.head.append(script);
  };

  const lanesHeight = (usermeta, datasets) =>
    new Set(Object.values(datasets).flat().map(row => row[usermeta.lane])).size * usermeta.height + 8;

  // --- pictures whose time the reader zooms, all alike, and saves for ui.perfetto.dev: Chrome's JSON of trace events ---
  const SPAN = "zoom_time_ns";
  const hasSpan = name => wanted[name]?.document.layer?.some(one => one.params?.some(param => param.name === "zoom"));
  const traceEvents = (begin, end) => Object.keys(wanted).filter(hasSpan).flatMap((name, at) => {
    const pid = at + 1, before = new Map(), { points, events } = wanted[name].data;
    const found = [{ ph: "M", name: "process_name", pid, args: { name } }];
    for (const { kind = "", name, time_ns, ...values } of rows(points)) {
      const counter = { ph: "C", name: `${kind} ${name}`, pid, ts: Math.max(time_ns, begin) / 1e3, args: values };
      if (time_ns < begin) { before.set(counter.name, counter); continue; }
      if (before.has(counter.name)) found.push(before.get(counter.name));
      before.delete(counter.name);
      if (time_ns <= end) found.push(counter);
    }
    for (const { event, from_ns, to_ns } of at ? [] : rows(events))
      if (from_ns <= end && to_ns >= begin) found.push({ ph: "X", name: event, pid, tid: 1, ts: from_ns / 1e3, dur: (to_ns - from_ns) / 1e3 });
    return found;
  });
  document.addEventListener("click", event => {
    if (!event.target.matches("[data-save]")) return;
    const [begin, end] = views.get(event.target.closest("[data-chart]").dataset.chart)?.signal(SPAN) ?? [-Infinity, Infinity];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify({ traceEvents: traceEvents(begin, end) })], { type: "application/json" }));
    link.download = "rates.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });

  const draw = async (name, figure) => {
    const canvas = figure.querySelector(".canvas");
    const width = canvas.clientWidth;
    const columns = Math.max(1, Math.floor(width / 300));  // axis and symbols take the rest of the width
    const legend = { ...style.legend, columns, labelLimit: Math.min(330, (width - 60) / columns - 30) };
    const config = { ...style, axis: { ...style.axis, labelLimit: Math.min(260, 0.45 * width) }, legend };
    const datasets = chosen(name, figure), { usermeta, ...document_ } = wanted[name].document;
    if (!Object.values(datasets).flat().length) return;  // a scale needs data
    const frame = { width: "container", autosize: { type: "fit-x", contains: "padding" }, ...(usermeta && { height: lanesHeight(usermeta, datasets) }) };
    const result = await window.vegaEmbed(canvas, { ...frame, ...document_, datasets }, {
      actions: false, ast: true, renderer: "svg", config, tooltip: { disableDefaultStyle: true, theme: "plain" },
      logLevel: 1, expressionFunctions: { duration, size, significant, isRound },
    });
    canvas.querySelector("svg")?.setAttribute("aria-hidden", "true");
    views.set(name, result.view);
    if (hasSpan(name)) result.view.addSignalListener(SPAN, (_, span) => {
      for (const [other, view] of views)
        if (hasSpan(other) && String(view.signal(SPAN)) !== String(span)) view.signal(SPAN, span).runAsync();
    });
  };
  const refresh = async (name, figure) => {
    const view = views.get(name);
    if (!view) return draw(name, figure);
    const datasets = chosen(name, figure), { usermeta } = wanted[name].document;
    for (const [key, values] of Object.entries(datasets)) view.data(key, values);
    if (usermeta && Object.values(datasets).flat().length) view.height(lanesHeight(usermeta, datasets));
    await view.runAsync();
  };
  const each = async action => {
    for (const figure of document.querySelectorAll("[data-chart]")) {
      await action(figure.dataset.chart, figure);
      await new Promise(done => setTimeout(done));  // keep the page responsive between two charts
    }
  };
  document.addEventListener("change", event => {
    const figure = event.target.closest("[data-chart]");
    if (!figure || !event.target.matches("[data-choice]")) return;
    for (const other of document.querySelectorAll("[data-chart]")) {  // an iteration is selected for all charts that show one
      const select = other.querySelector("[data-choice]");
      if (wanted[other.dataset.chart].choice !== wanted[figure.dataset.chart].choice || !select) continue;
      select.value = event.target.value;
      refresh(other.dataset.chart, other);
    }
  });
  const folded = document.getElementsByTagName("details");
  addEventListener("beforeprint", () => { views.forEach(view => view.resize().run()); });

  // --- live run: ask for newer versions, keep open what the reader has opened --------------------------------------
  const say = (text, kind) => {
    const state = document.getElementById("live-state");
    if (state.textContent !== text) state.textContent = text;
    state.className = `live-state ${kind}`;
  };
  const take = async text => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const open = [...folded].filter(one => one.open && one.id).map(one => one.id);
    const choices = new Map([...document.querySelectorAll("[data-choice]")].map(one => [one.closest("[data-chart]").id, one.value]));
    const canvases = new Map([...document.querySelectorAll("[data-chart]")].map(one => [one.id, one.querySelector(".canvas")]));
    wanted = JSON.parse(await unpack(fresh.getElementById("pictures")));
    document.title = fresh.title;
    for (const id of ["head", "content"]) document.getElementById(id).replaceChildren(...fresh.getElementById(id).childNodes);
    document.querySelector("nav").replaceChildren(...fresh.querySelector("nav").childNodes);
    for (const id of open) { const one = document.getElementById(id); if (one) one.open = true; }
    for (const figure of document.querySelectorAll("[data-chart]")) {
      const select = figure.querySelector("[data-choice]"), value = choices.get(figure.id);
      if (select && [...select.options].some(one => one.value === value)) select.value = value;
      const canvas = canvases.get(figure.id);
      if (canvas) figure.querySelector(".canvas").replaceWith(canvas);
    }
    links.clear();
    for (const a of document.querySelectorAll("nav a")) links.set(a.hash.slice(1), a);
    observe();
    await each(refresh);
  };
  const follow = async () => {
    let version = 0;
    const reader = Math.random().toString(36).slice(2);
    for (;;) {
      let answer;
      try {
        answer = await fetch(`state?after=${version}&reader=${reader}`, { cache: "no-store" });
      } catch {
        say("connection lost: the run has ended or was stopped. This is the last version received.", "lost");
        return;
      }
      if (answer.status === 200) {
        await take(await answer.text());
        version = Number(answer.headers.get("X-Version"));
        root.dataset.version = version;
        const ended = answer.headers.get("X-Ended");
        if (ended) { root.dataset.ended = "yes"; say("the run has ended", "ended"); return; }
        say("live", "");
      } else if (answer.status !== 204) { say(`the server says ${answer.status}`, "lost"); return; }
    }
  };

  const begin = async () => {
    wanted = JSON.parse(await unpack(document.getElementById("pictures")));
    await library();
    await each(draw);
  };
  begin().then(() => {
    root.dataset.ready = "yes";
    if (document.body.dataset.follows) return follow();
  });
})();
