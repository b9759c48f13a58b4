"""The style of the report: readable measure, light and dark, tables that scroll by themselves."""

CSS = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #ffffff; --soft: #5c5f66;
  --line: #d9dbe0; --tint: #f4f5f7; --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e5e9; --paper: #16171a;
  --soft: #a2a6ae; --line: #3a3d43; --tint: #212327; --link: #8ab8f0; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 1rem 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .8rem; padding-bottom: .3rem;
  border-bottom: 1px solid var(--line); }
h2::first-letter { text-transform: uppercase; }
.soft, figcaption, dt, td code, th code { color: var(--soft); }
.soft { font-size: .9rem; }
.findings { margin: 0 0 .6rem; padding-left: 1.1rem; }
.findings li { margin: 0 0 .55rem; white-space: pre-line; overflow-wrap: anywhere; }
a { color: var(--link); }
.links { display: block; margin-top: .2rem; }
.links a { display: inline-block; padding: .2rem .5rem .2rem 0; }
figure { margin: 0 0 1.8rem; }
img { display: block; max-width: 100%; height: auto; margin: 0 auto; padding: .5rem;
  background: #ffffff; border: 1px solid var(--line); border-radius: 6px; }
figcaption { margin: .5rem auto 0; max-width: 46rem; font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem .3rem 0; text-align: left; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
tbody th { font-weight: 500; white-space: normal; min-width: 11rem; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; }
th button::after { content: " \\2195"; color: var(--soft); }
th[aria-sort=ascending] button::after { content: " \\2191"; color: inherit; }
th[aria-sort=descending] button::after { content: " \\2193"; color: inherit; }
th.number, td.number { text-align: right; }
td.long { white-space: normal; min-width: 11rem; }
th.named { white-space: normal; min-width: 14rem; }
th.named code { display: block; font-size: .75rem; font-weight: 400; overflow-wrap: break-word; }
.copied { position: relative; padding-right: 5rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.copied button { position: absolute; top: .4rem; right: .4rem; padding: .25rem .7rem;
  font: .8rem system-ui, sans-serif; color: var(--ink); background: var(--paper);
  border: 1px solid var(--line); border-radius: 4px; cursor: pointer; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
h4 { font-size: .85rem; margin: .6rem 0 .2rem; }
nav ul { columns: 2; margin: 1.5rem 0; padding-left: 1.1rem; font-size: .9rem; }
nav li { margin: 0 0 .25rem; }
.card { margin-bottom: 1.2rem; padding: .8rem 1rem; background: var(--tint); border-radius: 6px; }
.rows { font-size: .85rem; white-space: nowrap; }
.rows a { display: inline-block; padding: .2rem .35rem; }
.copies { margin: .3rem 0 1rem; font-size: .9rem; }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .2rem 1.2rem;
  margin: 0; font-size: .9rem; }
dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .85rem; }
pre { overflow-x: auto; padding: .8rem 1rem; background: var(--tint); border-radius: 6px; }
summary { cursor: pointer; color: var(--soft); }
@media print {
  @page { margin: 14mm; }
  body { font-size: 9pt; line-height: 1.35; color: #000000; background: #ffffff; }
  main { max-width: none; padding: 0; }
  nav, .copies, .links, .rows, .screen, button::after, details:not([open]),
  .copied button { display: none; }
  h1 { font-size: 16pt; }
  h2 { font-size: 12pt; margin: 1rem 0 .4rem; break-after: avoid; }
  h3 { font-size: 10pt; margin: .7rem 0 .2rem; break-after: avoid; }
  figure { margin: 0 0 .6rem; }
  figure, tr, .card, .findings li { break-inside: avoid; }
  img { max-height: 7cm; padding: 0; border: 0; }
  figcaption, .soft, .card, pre, code { font-size: 8pt; }
  table { font-size: 7.5pt; }
  th, td { white-space: normal; min-width: 4.5rem; padding: .1rem .5rem .1rem 0; }
  td.number { white-space: nowrap; }
  .scroll { overflow: visible; }
}
@media (max-width: 36rem) {
  nav ul { columns: 1; }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .4rem; }
  .copied { padding: 2.6rem 1rem .8rem; }
}
"""
