// A rollout token by token, coloured by one of its numbers; all of them stand in the tooltip of a token.
(() => {
  const LABELS = {
    logprob: ["surprise", "Orange: improbable for the sampler; full at a probability of 2 %."],
    advantage: ["advantage", "Green is reinforced, red is discouraged; full at the largest here."],
    log_ratio: ["log-ratio", "Green: the learner finds the token likelier than the sampler did, red: less likely; full at the largest here, or at 0.05."],
    entropy: ["entropy", "Orange: the next token was open; full at the largest here."],
    author: ["author", "Who wrote the token."],
  };
  const BUILT_IN = ["logprob", "advantage", "log_ratio", "entropy", "author"];
  const AUTHORS = 6; // colours --arm-0 to --arm-5
  let rollouts = [];
  let current = null;
  let mode = "logprob";

  const section = () => document.getElementById("samples");
  const part = (name) => section().querySelector(`.${name}`);
  const label = (name) => (LABELS[name] ? LABELS[name][0] : name);

  page.hasRollout = (id) => rollouts.some((rollout) => rollout.id === id);
  page.openRollout = (id) => {
    open(id);
    section().scrollIntoView({ block: "start" });
    const token = part("tokens").querySelector(".t");
    if (token) token.focus({ preventScroll: true });
  };

  const title = (rollout) => {
    const reward = rollout.reward === null ? "no reward" : `reward ${page.number(rollout.reward)}`;
    return `step ${rollout.step} · group ${rollout.group} · member ${rollout.member} · ${reward} · ${rollout.why}`;
  };

  // ---------------------------------------------------------------- one token

  const pairs = (rollout, i) => {
    const of = (name) => (rollout.columns[name] ? rollout.columns[name][i] : null);
    const told = [
      ["token", JSON.stringify(rollout.texts[i])],
      ["id", rollout.ids[i]],
      ["author", rollout.authors[rollout.author[i]]],
      ["role", rollout.roles[rollout.role[i]]],
    ];
    if (of("logprob") !== null) told.push(["log-prob", of("logprob")], ["probability", page.number(Math.exp(of("logprob")))]);
    for (const name of Object.keys(rollout.columns)) {
      if (name === "logprob" || of(name) === null) continue;
      told.push([label(name), of(name)]);
      if (name === "log_ratio") told.push(["ratio", page.number(Math.exp(of(name)))]);
    }
    return told;
  };

  const paint = (element, rollout, i, scale) => {
    element.classList.remove("up", "down", "warm", ...Array.from({ length: AUTHORS }, (_, a) => `by-${a}`));
    if (mode === "author") return element.classList.add(`by-${rollout.author[i] % AUTHORS}`);
    const value = rollout.columns[mode] ? rollout.columns[mode][i] : null;
    if (value === null) return undefined;
    const signed = mode !== "logprob" && mode !== "entropy";
    const share = mode === "logprob" ? -value / 4 : scale > 0 ? Math.abs(value) / scale : 0;
    element.style.setProperty("--share", Math.min(1, Math.max(0, share)).toFixed(3));
    return element.classList.add(signed ? (value >= 0 ? "up" : "down") : "warm");
  };

  const repaint = () => {
    if (!current) return;
    const column = current.columns[mode] || [];
    const least = mode === "log_ratio" ? 0.05 : 0; // rounding alone is not shown in full colour
    const scale = column.reduce((most, value) => Math.max(most, Math.abs(value ?? 0)), least);
    for (const element of part("tokens").querySelectorAll(".t")) paint(element, current, Number(element.dataset.i), scale);
    const known = LABELS[mode] ? LABELS[mode][1] : "Green above zero, red below; full at the largest here.";
    const key = part("key");
    key.replaceChildren(known);
    if (mode === "author")
      [...new Set(current.author)].forEach((a) => {
        const chip = page.el("span", { class: `chip by-${a % AUTHORS}` });
        chip.append(page.shown(current.authors[a]));
        key.append(" ", chip);
      });
  };

  // ---------------------------------------------------------------- one rollout

  const heading = (rollout) => {
    const reward = rollout.reward === null ? `no reward (${rollout.status})` : `reward ${page.number(rollout.reward)}`;
    const kind = rollout.reward === null ? "reward" : rollout.reward > 0 ? "reward right" : "reward wrong";
    const facts = [`${rollout.tokens} sampled tokens`];
    if (rollout.masked) facts.push("left out of the loss");
    for (const [name, value] of Object.entries(rollout.components)) facts.push(`${name} ${page.number(value)}`);
    if (rollout.reason) facts.push(rollout.reason);
    const rest = page.el("span", { class: "fine" });
    rest.append(page.shown(facts.join(" · ")));
    const siblings = rollout.siblings.map((value) => (value === null ? "none" : page.number(value))).join(", ");
    const group = page.el("p", { class: "fine" });
    group.append(page.shown(`Group ${rollout.key}: rewards ${siblings}`));
    return [page.el("h4", {}, page.el("b", { class: kind }, reward), rest), group];
  };

  const open = (id) => {
    current = rollouts.find((rollout) => rollout.id === id) || rollouts[0];
    part("pick").value = current.id;
    part("about").replaceChildren(...heading(current));
    const made = document.createDocumentFragment();
    if (current.before) made.append(page.el("span", { class: "hidden" }, `${current.before} tokens before`));
    current.texts.forEach((text, i) => {
      const element = page.el("span", { class: i < current.start ? "t other" : "t", "data-i": i, tabindex: -1, role: "note" });
      element.append(page.shown(text.replaceAll("\n", "↵\n") || "∅"));
      made.append(element);
    });
    if (current.after) made.append(page.el("span", { class: "hidden" }, `${current.after} more tokens`));
    part("tokens").replaceChildren(made);
    const first = part("tokens").querySelector(`.t[data-i="${current.start}"]`) || part("tokens").querySelector(".t");
    if (first) first.tabIndex = 0; // one stop for the tab key; arrows go on from there
    modes();
    repaint();
  };

  const modes = () => {
    const own = Object.keys(current.columns).filter((name) => !BUILT_IN.includes(name));
    const names = [...BUILT_IN, ...own];
    if (mode !== "author" && !current.columns[mode]) mode = current.columns.logprob ? "logprob" : "author";
    part("modes").replaceChildren(
      ...names.map((name) => {
        const there = name === "author" || Boolean(current.columns[name]);
        const choice = page.el("input", {
          class: "choice", type: "radio", name: "colour", id: `by-${name}`, value: name, disabled: !there,
        });
        choice.checked = name === mode;
        choice.addEventListener("change", () => {
          mode = name;
          repaint();
        });
        const said = page.el("label", { for: `by-${name}` });
        said.append(page.shown(label(name)), there ? "" : " (not stored)");
        const both = page.el("span", {}, choice, said);
        return both;
      }),
    );
  };

  // ---------------------------------------------------------------- pointer and keys

  const tell = (element) => {
    page.tip(pairs(current, Number(element.dataset.i)), element.getClientRects()[0] || element.getBoundingClientRect());
    element.setAttribute("aria-describedby", "tip");
  };

  const listen = () => {
    const box = part("tokens");
    box.addEventListener("pointerover", (event) => {
      const element = event.target.closest(".t");
      if (element) tell(element);
    });
    box.addEventListener("pointerleave", page.hideTip);
    box.addEventListener("focusin", (event) => event.target.matches(".t") && tell(event.target));
    box.addEventListener("focusout", page.hideTip);
    box.addEventListener("keydown", (event) => {
      const all = [...box.querySelectorAll(".t")];
      const now = all.indexOf(event.target);
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: all.length - 1 }[event.key];
      if (to === undefined || !all[to]) return;
      event.preventDefault();
      all[now].tabIndex = -1;
      all[to].tabIndex = 0;
      all[to].focus();
    });
    part("pick").addEventListener("change", (event) => open(event.target.value));
    const go = (by) => {
      const now = rollouts.indexOf(current);
      open(rollouts[(now + by + rollouts.length) % rollouts.length].id);
    };
    part("earlier").addEventListener("click", () => go(-1));
    part("later").addEventListener("click", () => go(1));
  };

  let listening = false;
  page.drawRollouts = (samples) => {
    rollouts = samples ? samples.rollouts : [];
    section().hidden = !rollouts.length;
    if (!rollouts.length) return;
    if (!listening) listen();
    listening = true;
    part("sub").textContent = `${samples.rule} Up to ${samples.tokens} tokens of each. Hold the pointer over a token, or go through them with the arrow keys, for its numbers.`;
    part("pick").replaceChildren(...rollouts.map((rollout) => page.el("option", { value: rollout.id }, title(rollout))));
    const kept = current && page.hasRollout(current.id);
    if (kept) {
      current = rollouts.find((rollout) => rollout.id === current.id); // the reader goes on reading
      part("pick").value = current.id;
    } else open((rollouts.find((rollout) => rollout.why === "last") || rollouts[0]).id);
  };
})();
