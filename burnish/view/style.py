"""The style sheet of a report: light and dark by the reader's system, nothing fetched."""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;--paper:#fbfaf8;--card:#fff;--ink:#1d2126;--soft:#646b75;--rule:#e4e1da;--accent:#0b7a6f;
--accent-soft:#d9efec;--warm:#c2620a;--good:#157347;--bad:#b3261e;--sunk:#f4f2ed;--heat:217,119,6;--up:16,138,96;
--down:205,60,50}
@media(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1b1f24;--ink:#e7e6e3;--soft:#9aa2ad;--rule:#2e343b;
--accent:#4fd1c0;--accent-soft:#17403c;--warm:#f0a35e;--good:#5fcf95;--bad:#f28b82;--sunk:#15191d;--heat:240,150,60;
--up:60,190,130;--down:235,95,85}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",sans-serif}
main{max-width:1120px;margin:0 auto;padding:40px 24px 80px}
h1{font-size:30px;line-height:1.2;margin:0;letter-spacing:-.02em}
h2{font-size:19px;margin:52px 0 4px;letter-spacing:-.01em}
h4{font-size:13px;margin:0 0 4px;font-weight:600}
p{margin:4px 0 14px;max-width:76ch}
.lead{font-size:18px;margin:14px 0 0}
.fine,.sub{color:var(--soft);font-weight:400}.fine{font-size:12.5px}
.sub{margin:6px 0 0;max-width:105ch}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(160px,1fr));gap:12px;margin:26px 0 0}
.tile,figure,.pair,.group,table,details{background:var(--card);border:1px solid var(--rule);border-radius:10px}
.tile{padding:12px 16px}
.tile .name{color:var(--soft);font-size:12.5px}
.tile .big{font-size:23px;font-weight:650;white-space:nowrap;letter-spacing:-.02em;
font-variant-numeric:tabular-nums;line-height:1.3}
.tile .big i{font-style:normal;color:var(--soft);font-weight:450}
.tile.main .big{color:var(--accent)}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:12px;margin:14px 0 0}
figure{margin:0;padding:12px 12px 6px}
figcaption{display:flex;justify-content:space-between;gap:8px;font-size:13px;font-weight:600;padding:0 4px 4px}
figcaption .values{color:var(--soft);font-weight:400;font-variant-numeric:tabular-nums;white-space:nowrap}
figcaption b{color:var(--ink)}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--soft);font-size:11px;font-variant-numeric:tabular-nums}
svg text.y{text-anchor:end}svg text.x{text-anchor:middle}
.grid{stroke:var(--rule);stroke-width:1}
.line{fill:none;stroke:var(--accent);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.raw{fill:none;stroke:var(--accent);stroke-width:1;opacity:.3}
.whisker{stroke:var(--accent);stroke-width:1.5}
.mark{fill:var(--card);stroke:var(--accent);stroke-width:2}
.scroll{overflow-x:auto}
details tr:first-child>*{border-top:0}
table{border-collapse:separate;border-spacing:0;width:100%;margin:14px 0 0;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:9px 14px;border-top:1px solid var(--rule);white-space:nowrap}
thead th{border-top:0;color:var(--soft);font-weight:500;font-size:12.5px}
tbody th{font-weight:600}
td .fine{margin-left:6px}
.pair,.group{padding:14px 16px;margin:12px 0 0}
.pair header{display:flex;gap:10px;align-items:baseline;margin:0 0 8px}
.kind{font-size:12px;font-weight:600;border-radius:99px;padding:1px 9px;background:var(--sunk);color:var(--soft)}
.kind.learnt{background:var(--accent-soft);color:var(--good)}.kind.still-right{color:var(--good)}
.kind.lost,.kind.still-wrong{color:var(--bad)}
.expected{color:var(--soft);font-size:12.5px}
.sides{display:grid;grid-template-columns:1fr 1fr;gap:12px;margin-top:10px}
@media(max-width:700px){.sides{grid-template-columns:1fr}}
pre{margin:0;padding:9px 12px;background:var(--sunk);border-radius:7px;white-space:pre-wrap;overflow-wrap:anywhere;
font:13px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;max-height:340px;overflow:auto}
pre.prompt{background:none;padding:0;color:var(--soft)}
.right{color:var(--good)}.wrong{color:var(--bad)}
h4 .fine{margin-left:6px}
.member{margin:10px 0 0}
.hidden{background:var(--rule);color:var(--soft);border-radius:4px;padding:0 4px;font-size:.82em;margin:0 1px}
.other{color:var(--soft)}
.t{border-radius:3px;padding:1px 0;box-shadow:inset -1px 0 0 var(--sunk);
background:rgba(var(--heat),calc(var(--p,0)*.75))}
#by-advantage:checked~.samples .t{background:none}
#by-advantage:checked~.samples .t.up{background:rgba(var(--up),calc(var(--a,0)*.55))}
#by-advantage:checked~.samples .t.down{background:rgba(var(--down),calc(var(--a,0)*.55))}
.choice{position:absolute;opacity:0}
.choice+label{margin-top:10px;display:inline-block;
cursor:pointer;border:1px solid var(--rule);border-radius:99px;padding:2px 12px;
font-size:13px;color:var(--soft);margin-right:4px}
.choice:checked+label{background:var(--accent-soft);color:var(--ink);border-color:transparent}
.choice:focus-visible+label{outline:2px solid var(--accent);outline-offset:2px}
details{margin:14px 0 0;padding:10px 16px}
summary{cursor:pointer;font-weight:600}
details .charts,details pre{margin-top:12px}
footer{margin-top:56px;color:var(--soft);font-size:12.5px}
"""
