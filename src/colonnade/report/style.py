"""How a report looks: one style sheet, for screens of any width and for paper. Nothing is fetched from anywhere."""

__all__ = ["STYLE"]

STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --field: #f6f8fa; --mark: #0072b2; --alarm: #a40e26; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; color: var(--ink); background: #fff;
  max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; padding-top: .8rem; border-top: 2px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p, ul, dl { margin: .4rem 0 .8rem; }
a { color: var(--mark); }
.soft { color: var(--soft); }
.receipt { background: var(--field); border-left: 4px solid var(--mark); padding: .6rem .8rem; }
.alarm { background: #fff0f0; border: 3px solid var(--alarm); color: var(--alarm); padding: .8rem 1rem; font-weight: 700; }
.promise { background: var(--field); padding: .8rem 1rem; border-radius: 4px; }
.wide { overflow-x: auto; margin: .6rem 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
caption { text-align: left; color: var(--soft); padding: .2rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: break-word; }
th { font-weight: 600; white-space: nowrap; }
th.number { text-align: right; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; }
figure img { width: 100%; max-width: 52rem; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .88rem; }
code { font: .85em/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { font: .8rem/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; background: var(--field);
  padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.sign { display: flex; flex-wrap: wrap; gap: 2rem; margin-top: 2.5rem; }
.sign div { flex: 1 1 14rem; border-top: 1px solid var(--ink); padding-top: .3rem; color: var(--soft); font-size: .88rem; }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  h2 { break-after: avoid; } figure, tr, .alarm, .receipt { break-inside: avoid; }
  .wide { overflow: visible; } a { color: inherit; text-decoration: none; }
  @page { margin: 18mm 16mm; }
}
"""
