"use strict";
(() => {
  const items = new Map();
  for (const data of document.querySelectorAll("script[data-plot]")) items.set(data.dataset.plot, data);
  const drawn = [];

  async function draw(plot) {
    const data = items.get(plot.id);
    if (data === undefined) return;
    items.delete(plot.id);
    plot.replaceChildren();
    const views = await Bokeh.embed.embed_item(JSON.parse(data.textContent), plot);
    for (const view of views.roots) {
      const figures = view.model.toolbar === undefined ? view.child_views ?? [] : [view]; // panels
      for (const one of figures) {
        if (one.model.toolbar === undefined) continue; // notifications are a root of their own
        drawn.push(one);
        const box = one.model.toolbar.tools.find((tool) => tool.type === "BoxZoomTool");
        if (box && matchMedia("(pointer: fine)").matches) box.active = true;
      }
    }
    plot.dataset.drawn = "yes";
  }

  function drawIn(root) {
    for (const plot of root.querySelectorAll(".plot")) {
      const fold = plot.closest("details");
      if (fold === null || fold.open) draw(plot);
    }
  }

  function repaint() {
    for (const view of drawn) view.invalidate_layout ? view.invalidate_layout() : view.request_render();
  }

  function sort(head) {
    const heads = [...head.parentNode.children];
    const column = heads.indexOf(head);
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = head.closest("table").tBodies[0];
    const key = (row) => {
      const cell = row.cells[column];
      const text = cell.dataset.sort ?? cell.textContent.trim();
      const number = Number(text);
      return text !== "" && Number.isFinite(number) ? number : text;
    };
    const order = (a, b) => {
      if (typeof a === "number" && typeof b === "number") return a - b;
      if (typeof a === "number") return -1;
      if (typeof b === "number") return 1;
      return a.localeCompare(b, undefined, { numeric: true });
    };
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => (down ? -order(a, b) : order(a, b)));
    body.append(...rows.map(([, row]) => row));
  }

  for (const button of document.querySelectorAll("thead button")) {
    button.addEventListener("click", () => sort(button.parentNode));
  }
  for (const fold of document.querySelectorAll("details")) {
    fold.addEventListener("toggle", () => { if (fold.open) drawIn(fold); });
  }
  for (const log of document.querySelectorAll("pre.log")) log.scrollTop = log.scrollHeight;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  drawIn(document);
})();
