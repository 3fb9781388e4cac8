"""What the pages say is so: generated parts, links, commands, snippets. And they speak of the project only."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from docs_tree import DOCS, PAGES, ROOT, anchors, blocks, commands, links, name_of

from chaos.cli.main import COMMANDS, group
from chaos.scenario.load import load_paths

GENERATE = DOCS / "generate.py"
of_each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def generate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(GENERATE), *map(str, arguments)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


# --- generated parts


def test_generated_parts_are_up_to_date():
    done = generate("--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_generated_part_that_is_out_of_date_is_named_and_mended(tmp_path):
    shutil.copytree(DOCS, tmp_path / "docs")
    page = tmp_path / "docs" / "exit-status.md"
    right = page.read_text()
    page.write_text(right.replace("every run passed", "every run failed"))
    stale = generate("--check", "--docs", tmp_path / "docs")
    assert (stale.returncode, "exit-status.md" in stale.stdout) == (1, True)
    assert generate("--docs", tmp_path / "docs").returncode == 0
    assert page.read_text() == right


def test_a_part_that_no_page_holds_is_named(tmp_path):
    shutil.copytree(DOCS, tmp_path / "docs")
    (tmp_path / "docs" / "checks.md").write_text("# Checks\n")
    done = generate("--check", "--docs", tmp_path / "docs")
    assert (done.returncode, "no page holds the part checks" in done.stderr) == (1, True)


# --- links


@of_each_page
def test_every_link_leads_somewhere(page):
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def test_every_page_is_reached_from_the_readme():
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        paths = ((page.parent / target.partition("#")[0]).resolve() for target in links(page) if target[0] != "#")
        waiting += [path for path in paths if path.suffix == ".md" and path.is_file()]
    assert [name_of(page) for page in PAGES if page not in seen] == []


# --- commands and snippets


@of_each_page
def test_every_command_shown_exists_with_its_options(page):
    for line in commands(page):
        words = [word for word in shlex.split(line)[1:] if word not in ("...", "\\")]
        if words[0].startswith("-"):
            assert words[0] in ("--help", "--version", "-h"), line
            continue
        assert words[0] in COMMANDS, line
        command = group.get_command(click.Context(group), words[0])
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
        assert used <= known | {"--help"}, line


def snippets() -> list[tuple[str, str]]:
    found = [
        (f"{name_of(page)}:{number}", content)
        for page in PAGES
        for number, content in enumerate(blocks(page, "yaml"))
        if content.startswith("schema:")
    ]
    return found + [(name_of(file), file.read_text()) for file in sorted(DOCS.rglob("*.yaml"))]


@pytest.mark.parametrize(("where", "text"), snippets(), ids=[where for where, _ in snippets()])
def test_every_scenario_shown_is_valid(where, text, tmp_path):
    file = tmp_path / "shown.yaml"
    file.write_text(text)
    assert load_paths([file])


def test_the_example_of_ones_own_job_is_the_file_beside_it():
    (shown,) = blocks(DOCS / "your-own-job.md", "yaml")
    assert shown == (DOCS / "examples" / "own-job.yaml").read_text()


def test_the_example_of_ones_own_job_calls_what_the_agent_has():
    from chaos import agent

    called = set(re.findall(r"\bagent\.(\w+)\(", (DOCS / "examples" / "own_job.py").read_text()))
    assert called == {"entered", "group_ready", "watch", "step_done", "finished"}
    assert called <= set(agent.__all__)
    listed = set(re.findall(r"^\| `(\w+)\(", (DOCS / "your-own-job.md").read_text(), flags=re.MULTILINE))
    assert listed == set(agent.__all__) - {"active"}


# --- README and CI


def test_the_readme_names_the_two_commands_and_they_are_targets():
    shown = "\n".join(blocks(ROOT / "README.md", "console"))
    makefile = (ROOT / "Makefile").read_text()
    for target in ("run", "test"):
        assert f"make {target}" in shown
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_ci_calls_the_test_command_of_the_readme():
    script = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^[^#\n]*\bmake test\b", script, flags=re.MULTILINE)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130


# --- of the project only


@of_each_page
def test_no_place_of_one_machine_and_no_host_is_named(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"(?<![\w.])/(?:work|root|home|opt|mnt|srv|Users)/\S*", text) == []
    assert re.findall(r"\b(?:pypi|npmjs|files\.pythonhosted)\.\w+", text) == []
    assert re.findall(r"https?://(?!127\.0\.0\.1|example\.org/)\S+", text) == []  # a name kept for examples


@of_each_page
def test_pages_speak_of_the_project_only(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"\b(?:assistants?|chatbot|as an AI|colleagues?|this session)\b", text, re.IGNORECASE) == []
    assert re.findall(r"\b(?:TODO|TBD|FIXME|lorem|coming soon)\b", text, re.IGNORECASE) == []
