"""What a page shows of cited lines and of what was kept: folded, named, bounded, and deaf to what they hold."""

from __future__ import annotations

from report_builders import failed, timeline, verdict
from test_report_html import HOSTILE, Page

from chaos.model.verdict import Check
from chaos.report.evidence import CHARACTERS_MAX, SHEET_CHARACTERS_MAX, cited, lines_cited, sheets, worth_quoting
from chaos.report.html import report_html

EVENT, LOG, STACK = "rank-7-5.jsonl:3", "logs/job.log:7", "evidence/stacks-1-77.txt:4"
QUOTES = {EVENT: '{"kind":"fault_fired"}', LOG: "> 7  worker failed", STACK: "> 4  in wait_for_ever"}
KEPT = {"evidence/stacks-1-77.txt": "in wait_for_ever\n", "evidence/sockets-1-77.txt": "ESTABLISHED\n"}


def check(outcome: str) -> Check:
    return Check(name="recovered_in_time", outcome=outcome, evidence=(EVENT, LOG, STACK))


def page_of(outcome: str, **shown) -> str:
    made = failed(checks=(check(outcome),)) if outcome != "pass" else verdict(checks=(check(outcome),))
    return report_html(made, timeline(), **shown)


def test_a_failed_check_shows_each_line_that_it_cites():
    text = Page(page_of("fail", quotes=QUOTES)).text
    assert all(ref in text and quote in text for ref, quote in QUOTES.items())


def test_a_check_that_passed_shows_lines_of_logs_and_no_events():
    assert worth_quoting(check("pass")) == [LOG, STACK]
    text = Page(page_of("pass", quotes=QUOTES)).text
    assert QUOTES[LOG] in text and QUOTES[EVENT] not in text and EVENT in text


def test_a_line_that_could_not_be_looked_up_is_still_named():
    page = page_of("fail", quotes={LOG: QUOTES[LOG]})
    assert lines_cited(check("fail"), {LOG: "x"}) == [(LOG, "x")]
    assert EVENT in Page(page).text and page.count("what stands there") == 1
    assert "what stands there" not in page_of("fail")


def test_stacks_and_sockets_are_folded_under_their_names():
    parsed = Page(page_of("fail", kept=KEPT))
    opened = [attributes for tag, attributes in parsed.tags if tag == "details" and "open" in attributes]
    assert opened == []
    assert "Where every process stood" in parsed.text
    assert all(name in parsed.text and text in parsed.text for name, text in KEPT.items())


def test_a_run_in_which_no_wait_ran_out_has_no_such_part():
    assert "Where every process stood" not in page_of("pass")


def test_hostile_text_in_lines_and_stacks_stays_text():
    page = page_of("fail", quotes={EVENT: HOSTILE, LOG: HOSTILE}, kept={HOSTILE: HOSTILE})
    parsed = Page(page)
    names = [tag for tag, _ in parsed.tags]
    assert names.count("script") == 1 and "img" not in names
    assert parsed.text.count("window.pwned=1") == 4 * HOSTILE.count("window.pwned=1")
    assert not any(sign in page for sign in "\x1b\u202e\x00")


def test_a_long_dump_is_shown_from_its_beginning_and_says_so():
    (sheet,), more = sheets({"evidence/stacks-1-77.txt": "x" * (SHEET_CHARACTERS_MAX + 1)})
    assert (len(sheet.text), sheet.note, more) == (SHEET_CHARACTERS_MAX, "its beginning", "")


def test_of_a_thousand_ranks_a_page_shows_what_it_can_hold_and_counts_the_rest():
    shown, more = sheets({f"evidence/stacks-{rank}-7.txt": "x" * SHEET_CHARACTERS_MAX for rank in range(1000)})
    assert sum(len(sheet.text) for sheet in shown) == CHARACTERS_MAX
    assert more == f"{1000 - len(shown)} more files in the run's folder"


def test_of_many_references_the_first_are_named_and_the_others_counted():
    many = Check(name="x", outcome="fail", evidence=tuple(f"rank-7-5.jsonl:{line}" for line in range(1, 12)))
    assert cited(many).endswith("rank-7-5.jsonl:8 and 3 more")
