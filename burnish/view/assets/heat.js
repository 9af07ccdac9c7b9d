// The map of group rewards: a column a stored step, in it a block a group, in that a cell a member, best on top.
(() => {
  const GAP = 3;
  const AXIS = 18;
  let map = null;
  let cells = [];
  let layout = null;
  let at = null;

  const section = () => document.getElementById("heat");

  const ranked = (rewards) =>
    rewards.map((reward, member) => ({ reward, member })).sort((a, b) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity));

  const triple = (name) => page.colour(name).split(",").map(Number);

  const measure = (wrapper) => {
    const groups = Math.max(...map.columns.map((column) => column.groups.length));
    const members = Math.max(...map.columns.flatMap((column) => column.groups.map((group) => group.length)));
    const wide = Math.max(4, Math.min(26, Math.floor((wrapper.clientWidth - 4) / map.columns.length)));
    const high = Math.max(4, Math.min(14, Math.floor((360 - groups * GAP) / (groups * members))));
    return { groups, members, wide, high, width: wide * map.columns.length, height: groups * (members * high + GAP) };
  };

  const draw = () => {
    if (!map) return;
    const canvas = section().querySelector("canvas");
    layout = measure(canvas.parentElement);
    const scale = devicePixelRatio || 1;
    canvas.width = Math.ceil(layout.width * scale);
    canvas.height = Math.ceil((layout.height + AXIS) * scale);
    canvas.style.width = `${layout.width}px`;
    canvas.style.height = `${layout.height + AXIS}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const [low, high] = [triple("--heat-low"), triple("--heat-high")];
    const span = map.high - map.low;
    cells = [];
    map.columns.forEach((column, x) =>
      column.groups.forEach((rewards, g) =>
        ranked(rewards).forEach(({ reward, member }, row) => {
          const left = x * layout.wide;
          const top = g * (layout.members * layout.high + GAP) + row * layout.high;
          const share = reward === null ? 0 : span > 0 ? (reward - map.low) / span : 0.5;
          const mixed = low.map((value, i) => Math.round(value + share * (high[i] - value)));
          pen.fillStyle = reward === null ? page.colour("--rule") : `rgb(${mixed.join(",")})`;
          pen.fillRect(left, top, layout.wide - 1, layout.high - 1);
          const id = `${column.file}/${g}/${member}`;
          if (page.hasRollout(id)) {
            pen.fillStyle = page.colour("--warm");
            pen.fillRect(left, top, Math.min(3, layout.wide - 1), layout.high - 1);
          }
          cells.push({ x, g, row, left, top, id, step: column.step, group: g, member, reward });
        }),
      ),
    );
    pen.fillStyle = page.colour("--soft");
    pen.font = "11px system-ui, sans-serif";
    let free = -Infinity;
    map.columns.forEach((column, x) => {
      const label = page.number(column.step);
      const width = pen.measureText(label).width;
      const left = Math.min(x * layout.wide, Math.max(0, layout.width - width));
      if (left < free) return;
      pen.fillText(label, left, layout.height + 13);
      free = left + Math.max(width + 14, 60);
    });
    if (at) mark(pen);
  };

  const mark = (pen) => {
    pen.strokeStyle = page.colour("--ink");
    pen.lineWidth = 2;
    pen.strokeRect(at.left, at.top, layout.wide - 1, layout.high - 1);
  };

  const tell = (cell) => {
    const canvas = section().querySelector("canvas");
    const box = canvas.getBoundingClientRect();
    page.tip(
      [
        ["step", page.number(cell.step)],
        ["group", cell.group],
        ["member", cell.member],
        ["reward", cell.reward === null ? "none" : page.number(cell.reward)],
        ["tokens", page.hasRollout(cell.id) ? "Enter or a click shows them" : "not in this page"],
      ],
      { left: box.left + cell.left, top: box.top + cell.top, bottom: box.top + cell.top + layout.high },
    );
  };

  const choose = (cell) => {
    at = cell;
    draw();
    tell(cell);
  };

  const move = (event) => {
    if (event.key === "Enter" && at && page.hasRollout(at.id)) return page.openRollout(at.id);
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step || !cells.length) return undefined;
    event.preventDefault();
    if (!at) return choose(cells[0]);
    const lines = layout.members;
    const wanted = { x: at.x + step[0], line: at.g * lines + at.row + step[1] };
    const column = cells.filter((cell) => cell.x === wanted.x);
    const near = column.sort((a, b) => Math.abs(a.g * lines + a.row - wanted.line) - Math.abs(b.g * lines + b.row - wanted.line))[0];
    return near && choose(near);
  };

  const build = () => {
    const canvas = page.el("canvas", { tabindex: 0, role: "group", "aria-label": "Rewards of groups by step; arrow keys move" });
    const find = (event) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      return cells.find((cell) => x >= cell.left && x < cell.left + layout.wide && y >= cell.top && y < cell.top + layout.high);
    };
    canvas.addEventListener("pointermove", (event) => {
      const cell = find(event);
      if (cell) tell(cell);
      else page.hideTip();
    });
    canvas.addEventListener("pointerleave", page.hideTip);
    canvas.addEventListener("blur", () => {
      at = null;
      page.hideTip();
      draw();
    });
    canvas.addEventListener("keydown", move);
    canvas.addEventListener("click", (event) => {
      const cell = find(event);
      if (cell && page.hasRollout(cell.id)) page.openRollout(cell.id);
    });
    return canvas;
  };

  page.drawHeat = (given) => {
    map = given;
    section().hidden = !map;
    if (!map) return;
    const spot = section().querySelector(".map");
    if (!spot.firstChild) {
      spot.append(build());
      new ResizeObserver(draw).observe(spot);
    }
    section().querySelector(".sub").textContent = map.note;
    section().querySelector(".low").textContent = page.number(map.low);
    section().querySelector(".high").textContent = page.number(map.high);
    draw();
  };
  page.onColours(draw);
})();
