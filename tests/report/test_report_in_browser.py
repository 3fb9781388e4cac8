"""One page full of hostile text, looked at by a real browser: no foreign script ran, everything is drawn."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from report_builders import failed, plan, timeline
from test_report_html import HOSTILE, hostile, hostile_pages

from chaos.report.html import report_html

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: install it to run this test"),
]
# runs only where a page's own policy does not forbid it: that is how the second test can see something
PROBE = "<script>document.title = 'pwned'</script>"


def dom(page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "</html>" in done.stdout, done.stderr[-2000:]
    return done.stdout


def title(source):
    return re.search(r"<title>(.*?)</title>", source, re.DOTALL).group(1)


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "no policy"])
@pytest.mark.parametrize("page", hostile_pages(), ids=["all", "in lanes", "index"])
def test_no_script_of_hostile_text_runs(page, policy, tmp_path):
    # what a foreign script would leave behind, where the dumped page shows it
    watched = page.replace("window.pwned=1", "document.title='pwned'")
    if not policy:  # escaping alone must do
        watched = re.sub(r"<meta http-equiv.*?>", "", watched)
    assert title(dom(watched, tmp_path)) != "pwned"


def test_the_policy_stops_even_a_script_that_got_into_the_page(tmp_path):
    page = report_html(failed(), timeline())
    assert title(dom(page.replace("</main>", PROBE + "</main>"), tmp_path)) != "pwned"
    without_policy = re.sub(r"<meta http-equiv.*?>", "", page)
    assert title(dom(without_policy.replace("</main>", PROBE + "</main>"), tmp_path)) == "pwned"


def test_lanes_bars_and_lines_are_drawn_and_the_page_script_runs(tmp_path):
    bad = hostile(failed(), "name", "repeat")
    source = dom(report_html(bad, hostile(timeline(), "lane", "kind"), logs={"log": HOSTILE}, plan=plan()), tmp_path)
    assert source.count('class="lane"') == 5  # two ranks and the job, and both ranks again in the overview
    assert source.count('class="bar"') == 4
    assert len(re.findall(r'<path class="line (?:control|g0|g1)" d="M', source)) >= 5
    # the page's own script has made the button usable, so the policy lets it run
    assert re.search(r'<button type="button">Copy</button>', source)
