"""Claims about the pages: complete, self-contained, and deaf to hostile text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from report_builders import REPEAT, failed, incident, known, not_run, plan, timeline, unknown, verdict

from chaos.model.timeline import StepMark, Timeline
from chaos.report.html import index_html, report_html

HOSTILE = (
    "</title></style></script><script>window.pwned=1</script>\"'><img src=x onerror=window.pwned=1>"
    "<a href=javascript:window.pwned=1>{{ 7 * 191 }}\x1b[2J\u202e\ud800\x00"
)


class Page(HTMLParser):
    """All tags with their attributes, and all text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile(record: Any, *keep: str) -> Any:
    """The record with every text in it replaced, save in the fields to keep."""

    def replaced(value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return value if name in keep else HOSTILE
        if isinstance(value, dict):
            return {key: replaced(item, str(key)) for key, item in value.items()}
        return [replaced(item, name) for item in value] if isinstance(value, list | tuple) else value

    return msgspec.convert(replaced(msgspec.to_builtins(record)), type=type(record))


def hostile_pages() -> list[str]:
    words = {HOSTILE: HOSTILE}
    bad = msgspec.structs.replace(hostile(failed()), versions=words, settings_seen=words)
    return [
        report_html(bad, hostile(timeline()), logs=words, plan=hostile(plan(), "schema")),
        report_html(bad, hostile(timeline(), "lane", "kind"), logs=words),
        index_html([bad, hostile(unknown())], [HOSTILE, "javascript:window.pwned=1"]),
    ]


@pytest.mark.parametrize("page", hostile_pages(), ids=["all", "in lanes", "index"])
def test_hostile_text_stays_text(page):
    parsed = Page(page)
    names = [tag for tag, _ in parsed.tags]
    assert names.count("script") == names.count("style") == names.count("title") - page.count("<title>") + 1
    assert "img" not in names and "iframe" not in names
    assert "window.pwned=1" in parsed.text and "{{ 7 * 191 }}" in parsed.text
    assert not any(sign in page for sign in "\x1b\u202e\x00")
    page.encode("utf-8")


@pytest.mark.parametrize("page", [*hostile_pages(), report_html(verdict(), timeline(), plan=plan())])
def test_a_page_loads_nothing_and_carries_no_code_outside_its_two_blocks(page):
    for tag, attributes in Page(page).tags:
        assert not any(name == "style" or name.startswith("on") for name in attributes), tag
        assert "src" not in attributes
        target = attributes.get("href")
        assert target is None or target == "data:," or ":" not in target
    assert "@import" not in page and "url(http" not in page


def test_the_policy_allows_exactly_the_two_blocks_of_the_page():
    page = report_html(verdict(), timeline())
    policy = next(a["content"] for tag, a in Page(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for name in ("style", "script"):
        block = re.search(rf"<{name}>(.*?)</{name}>", page, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


@pytest.mark.parametrize("each", [verdict(), failed(), known(), unknown(), not_run()], ids=str)
def test_the_head_says_outcome_sentence_and_repeat_command(each):
    text = Page(report_html(each, timeline() if each.incidents else None)).text
    assert each.outcome.replace("_", " ") in text
    assert each.sentence in text
    assert REPEAT in text


def test_a_foreseen_failure_says_so_and_stands_below_the_others():
    source = report_html(failed(foreseen={"recovered_in_time": "expected"}), timeline())
    assert source.index(">state_exact</th>") < source.index(">recovered_in_time</th>")
    row = next(line for line in source.splitlines() if ">recovered_in_time</th>" in line)
    assert 'class="badge known"' in row and "fail (expected)" in row


def test_a_known_failure_looks_like_none_of_the_other_outcomes():
    for page in (report_html(known(), timeline()), index_html([known()], ["x.html"])):
        badge = re.search(r'<span class="badge (\w+)">.*? (failed[^<]*)</span>', page)
        assert badge and badge.groups() == ("known", "failed (known)")
    assert "1 known" in Page(index_html([known()], ["x.html"])).text


def test_every_check_is_listed_with_the_failed_ones_first():
    source = report_html(failed(), timeline())
    at = [source.index(f">{name}</th>") for name in ("recovered_in_time", "state_exact", "steady_before")]
    assert at == sorted(at)


def test_a_fault_says_what_it_certifies_and_what_not():
    text = Page(report_html(verdict(), timeline())).text
    assert "A pass certifies: the job survives the sudden end" in text
    assert "It does not certify: the loss of a whole host" in text


def test_all_pictures_are_there():
    labels = [a.get("aria-label") or "" for tag, a in Page(report_html(verdict(), timeline())).tags if tag == "svg"]
    for part in ("Bars of detection", "Timeline of the incident", "whole run", "Step time", "Loss over steps"):
        assert any(part in label for label in labels), part


def test_a_run_that_never_started_has_a_page_without_pictures():
    source = report_html(not_run(), None)
    assert "Nothing was checked." in source
    assert "<h2>Timeline" not in source and "<h2>Step time" not in source


def test_an_empty_timeline_is_no_error():
    assert "<h2>Timeline" not in report_html(unknown(), Timeline(t0_ns=0, end_s=0.0, ranks=()))


def test_a_cause_from_outside_the_job_is_shown_with_its_incident_and_nowhere_else():
    cause = "rank 1 ended by SIGKILL, which neither we nor NVRx sent"
    text = Page(report_html(verdict(incidents=(incident(), incident(faults=(), cause=cause))), timeline())).text
    assert text.count(cause) == 1 and text.count("from outside the job") == 1


def test_several_incidents_are_numbered():
    text = Page(report_html(verdict(incidents=(incident(), incident())), timeline())).text
    assert "Incident 1 of 2: kill" in text and "Incident 2 of 2: kill" in text


def test_the_end_of_a_long_log_is_kept():
    log = "\n".join(f"line {number}" for number in range(10_000))
    source = report_html(failed(), timeline(), logs={"logs/rank1.err": log})
    assert "line 9999" in source and "line 9000\n" not in source
    assert "last 200 lines of the excerpt" in source


def test_a_large_run_stays_a_small_page():
    steps = tuple(
        StepMark(step=step, rank=rank, group=0, t_s=step / 50 + rank / 1e4, loss=1 / (step + 1))
        for step in range(5_000)
        for rank in range(16)
    )
    large = Timeline(
        t0_ns=0, end_s=101.0, ranks=tuple(range(16)), steps=steps, control_loss={n: 1 / (n + 1) for n in range(5_000)}
    )
    assert len(report_html(verdict(incidents=()), large).encode()) < 500_000


def test_a_name_of_ten_kilobytes_does_not_swell_the_page():
    long = msgspec.structs.replace(verdict(), scenario="n" * 10_000)
    assert len(report_html(long, timeline())) < len(report_html(verdict(), timeline())) + 2_000


def test_the_same_run_gives_the_same_page():
    assert report_html(verdict(), timeline(), plan=plan()) == report_html(verdict(), timeline(), plan=plan())


def test_the_index_links_each_run_and_gives_the_number_of_each_outcome():
    page = Page(index_html([verdict(), failed()], ["kill worker/1/report.html", ""]))
    assert [a["href"] for tag, a in page.tags if tag == "a"] == ["kill%20worker/1/report.html"]
    assert "1 passed, 1 failed, 0 unknown, 0 not run" in page.text


def test_an_index_without_a_link_per_run_is_refused():
    with pytest.raises(ValueError, match="2 verdicts need as many links, got 1"):
        index_html([verdict(), failed()], ["one"])
