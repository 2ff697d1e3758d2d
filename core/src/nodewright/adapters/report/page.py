"""One self-contained page: nothing is fetched, not even plotly.js."""

from html import escape

from nodewright.adapters.report.axis import TimeAxis
from nodewright.adapters.report.charts import draw_charts, plotly_script
from nodewright.adapters.report.tables import decisions, failures, summary
from nodewright.adapters.simulated.result import SimulationResult
from nodewright.model.complaint import printable

_STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #F3F5F7; color: #24292F;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 26px; margin: 0 0 2px; } h2 { font-size: 17px; margin: 0 0 6px; }
.lead { color: #57606A; margin: 0 0 18px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(250px, 1fr)); gap: 12px; margin-bottom: 16px; }
.card, section { background: white; border: 1px solid #DDE2E7; border-radius: 8px; }
.card { padding: 12px 14px; } section { padding: 14px 16px; margin-bottom: 16px; }
.card .what { color: #57606A; font-size: 13px; } .card .figure { font-size: 24px; font-weight: 600; }
.card .note { color: #57606A; font-size: 13px; }
.wide { overflow-x: auto; max-height: 560px; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: white; text-align: left; color: #57606A; font-weight: 600; }
th, td { padding: 4px 12px 4px 0; border-bottom: 1px solid #EDF0F2; vertical-align: top; overflow-wrap: anywhere; }
td:nth-child(-n+2) { white-space: nowrap; }
.none { color: #57606A; margin: 4px 0; }
footer { color: #57606A; font-size: 13px; }
"""


def write_report(result: SimulationResult, *, description: str = "") -> str:
    """The page as text. Raises ConfigError where plotly is not installed."""
    charts = draw_charts(result)
    axis = TimeAxis.spanning(result.start, result.end)
    title = escape(printable(result.title))
    sections = [_section(name, chart) for name, chart in charts.items()]
    sections.append(_section("Failures", failures(result, axis)))
    sections.append(_section("Decisions", decisions(result, axis)))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; \
style-src 'unsafe-inline'; img-src data: blob:; font-src data:">
<link rel="icon" href="data:,">
<title>{title} · nodewright</title>
<style>{_STYLE}</style>
<script>{plotly_script()}</script>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="lead">{escape(printable(description, 1000))}</p>
<div class="cards">{_cards(result)}</div>
{"".join(sections)}
<footer>Simulated by nodewright on virtual time. This page is complete: it fetches nothing.</footer>
</main>
</body>
</html>
"""


def _cards(result: SimulationResult) -> str:
    return "\n".join(
        f'<div class="card"><div class="what">{escape(what)}</div><div class="figure">{escape(figure)}</div>'
        f'<div class="note">{escape(note)}</div></div>'
        for what, figure, note in summary(result)
    )


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>\n"
