// Everything that the page was given, drawn once.
if (page.data.metrics) {
  page.drawMetrics(page.data.metrics);
  page.drawEvaluations(page.data.evaluations);
  page.drawRollouts(page.data.samples);
  page.drawHeat(page.data.heat);
  page.follow();
}
for (const chart of page.data.arms || []) document.getElementById("arms").append(page.armChart(chart));
document.documentElement.dataset.drawn = "";
