// A page that a server keeps up to date: it asks for what was appended since it last asked, while somebody looks.
(() => {
  let { cursor, sections, stored, every } = page.data.live || {};
  let timer = null;
  const status = () => document.getElementById("live");

  const say = (text, kind = "") => {
    status().textContent = text;
    status().className = `live ${kind}`;
  };

  const take = (news) => {
    if (news.reset) {
      page.clearMetrics();
      page.drawMetrics(news.reset);
    } else if (news.steps && news.steps.length) page.appendMetrics(news.steps, news.metrics);
    if (news.html) {
      for (const [id, html] of Object.entries(news.html)) document.getElementById(id).innerHTML = html; // escaped by the server
      page.drawEvaluations(news.evaluations);
    }
    if (news.samples) {
      page.drawRollouts(news.samples);
      page.drawHeat(news.heat);
    }
    ({ cursor, sections, stored, every } = news);
    if (news.error) say(news.error, "bad");
    else say(news.state, news.finished ? "done" : "on");
  };

  const ask = async () => {
    timer = null;
    try {
      const answer = await fetch(`changes?cursor=${cursor}&sections=${sections}&stored=${stored}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      take(await answer.json());
    } catch (error) {
      say(`no answer from the server (${error.message}); asking again`, "bad");
    }
    plan();
  };

  const plan = () => {
    if (timer === null && document.visibilityState === "visible") timer = setTimeout(ask, every);
  };

  page.follow = () => {
    if (!page.data.live) return;
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible" && timer === null) ask();
      else if (document.visibilityState !== "visible" && timer !== null) {
        clearTimeout(timer);
        timer = null;
      }
    });
    say(page.data.live.state, "on");
    plan();
  };
})();
