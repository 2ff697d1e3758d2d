"""The frame of every HTML page: one file that fetches nothing, light and dark, with tables that can be sorted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from nodewright.model.printable import printable

STYLE = """
:root { color-scheme: light dark; --page: #F3F5F7; --paper: #FFFFFF; --text: #24292F; --quiet: #57606A;
  --line: #DDE2E7; --row: #EDF0F2; --grid: #E8ECF0; --link: #0A5CA8; --good: #1B7F4B; --bad: #B3261E; }
@media (prefers-color-scheme: dark) { :root { --page: #0D1117; --paper: #161B22; --text: #E6EDF3; --quiet: #9DA7B1;
  --line: #30363D; --row: #21262D; --grid: #2A3038; --link: #79B8FF; --good: #56D399; --bad: #FF8A80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 26px; margin: 0 0 2px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 0 0 6px; }
h3 { font-size: 14px; margin: 10px 0 4px; } a { color: var(--link); }
.lead { color: var(--quiet); margin: 0 0 18px; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(250px, 1fr)); gap: 12px; margin-bottom: 16px; }
.card, section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; }
.card { padding: 12px 14px; } section { padding: 14px 16px; margin-bottom: 16px; }
.card .what { color: var(--quiet); font-size: 13px; } .card .figure { font-size: 24px; font-weight: 600; }
.card .note { color: var(--quiet); font-size: 13px; overflow-wrap: anywhere; }
.wide { overflow: auto; max-height: 560px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: var(--paper); text-align: left; font-weight: 600; white-space: nowrap; }
th button { all: unset; cursor: pointer; color: var(--quiet); } th button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort=ascending] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
th, td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--row); vertical-align: top; overflow-wrap: break-word; }
td.short { white-space: nowrap; } td.name { min-width: 180px; } td.good { color: var(--good); } td.bad { color: var(--bad); }
input[type=search] { font: inherit; font-size: 13px; color: inherit; background: var(--page); border: 1px solid var(--line);
  border-radius: 6px; padding: 2px 8px; margin: 0 0 6px; width: 200px; max-width: 100%; }
.none { color: var(--quiet); margin: 4px 0; }
.keys { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 13px; margin: 2px 0 8px; padding: 0; list-style: none; }
.keys i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 5px; }
footer { color: var(--quiet); font-size: 13px; overflow-wrap: anywhere; }
@media (max-width: 640px) {
  main { padding: 14px 10px 32px; } h1 { font-size: 21px; } section { padding: 12px 10px; }
  .cards { grid-template-columns: 1fr 1fr; gap: 8px; } .card { padding: 9px 10px; } .card .figure { font-size: 19px; }
  .wide table { min-width: 600px; }
}
"""

# A click on a head sorts the rows by data-value, or by text; a second click the other way round.
SORT = """
document.querySelectorAll('th button').forEach(button => button.addEventListener('click', () => {
  const head = button.parentElement, table = head.closest('table'), place = head.cellIndex, body = table.tBodies[0];
  const down = head.getAttribute('aria-sort') === 'ascending';
  table.querySelectorAll('th').forEach(other => other.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const value = row => row.cells[place].dataset.value ?? row.cells[place].textContent;
  const numbers = [...body.rows].every(row => value(row) === '' || !isNaN(value(row)));
  const order = (a, b) => numbers ? (value(a) === '' ? -Infinity : +value(a)) - (value(b) === '' ? -Infinity : +value(b))
    : value(a).localeCompare(value(b));
  [...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)).forEach(row => body.append(row));
}));
"""
# Text in the field above a table hides the rows without it.
FILTER = """
document.querySelectorAll('input[type=search]').forEach(field => field.addEventListener('input', () => {
  const wanted = field.value.toLowerCase(), rows = field.parentElement.querySelector('tbody').rows;
  [...rows].forEach(row => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
}));
"""
_FEW = 8
# Okabe and Ito's colours, which colour-blind readers can tell apart, then softer ones of the same hues.
PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#8C6BB1",
    "#7FB2A0",
    "#B5A642",
    "#4D7FA8",
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of a table. ``value`` is what it is sorted by, ``link`` a relative address, ``tone`` good, bad, name, short or empty."""

    text: str
    value: float | None = None
    link: str = ""
    tone: str = ""


Content = str | Cell


def text_of(name: str, limit: int = 400) -> str:
    """Return text from outside for HTML: control characters are escaped, and markup."""
    return escape(printable(name, limit))


def section(title: str, content: str) -> str:
    return f"<section>\n<h2>{text_of(title)}</h2>\n{content}\n</section>\n"


def make_cards(figures: Iterable[tuple[str, str, str]]) -> str:
    """Return the figures at the top: name, amount and note of each."""
    return "\n".join(
        f'<div class="card"><div class="what">{escape(what)}</div><div class="figure">{text_of(figure)}</div>'
        f'<div class="note">{text_of(note)}</div></div>'
        for what, figure, note in figures
    )


def make_table(header: Sequence[str], rows: Sequence[Sequence[Content]], most: int) -> str:
    """Return a table that can be sorted, of at most ``most`` rows."""
    if not rows:
        return '<p class="none">None.</p>'
    shown = rows[:most]
    more = f'<p class="none">and {len(rows) - len(shown):,} more</p>' if len(rows) > len(shown) else ""
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
    head = "".join(f'<th scope="col"><button type="button">{escape(cell)}</button></th>' for cell in header)
    field = '<input type="search" placeholder="filter" aria-label="filter the rows">' if len(shown) > _FEW else ""
    inner = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f'<div>{field}<div class="wide" tabindex="0">{inner}</div>{more}</div>'


def _cell(cell: Content) -> str:
    found = Cell(text=cell) if isinstance(cell, str) else cell
    text = text_of(found.text)
    if found.link:
        text = f'<a href="{escape(found.link)}">{text}</a>'
    tone = f' class="{found.tone}"' if found.tone else ""
    value = f' data-value="{found.value:.10g}"' if found.value is not None else ""
    return f"<td{tone}{value}>{text}</td>"


def make_page(title: str, lead: str, body: str, *, footer: str, style: str = "", script: str = "") -> str:
    """Return a whole page; ``body`` and ``footer`` are HTML, ``title`` and ``lead`` are text."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{text_of(title)} · nodewright</title>
<style>{STYLE}{style}</style>
</head>
<body>
<main>
<h1>{text_of(title)}</h1>
<p class="lead">{text_of(lead, 1000)}</p>
{body}
<footer>{footer}</footer>
</main>
<script>{SORT}{FILTER}{script}</script>
</body>
</html>
"""
