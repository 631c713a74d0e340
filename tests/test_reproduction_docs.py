"""The reports in the docs are what the stored results give: nothing in them is typed by hand."""

import importlib.util
import re
import sys
import types
from pathlib import Path

import pytest

from setwise.paper.reproduction import write_report

DOCS = Path(__file__).parent.parent / "docs"
ADVICE = "run: python docs/reproduction_page.py"


@pytest.fixture(scope="module")
def page() -> types.ModuleType:
    sys.path.insert(0, str(DOCS))  # one program imports the other
    try:
        spec = importlib.util.spec_from_file_location("runs", DOCS / "reproduction_page.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


def test_the_reports_are_what_the_results_give(page, tmp_path):
    runs = page.stored()
    assert runs
    for name, results in runs.items():
        write_report(results, tmp_path / name)
        for file in ("report.md", "tables.csv"):
            written = (DOCS / "results" / name / file).read_text("utf-8")
            assert written == (tmp_path / name / file).read_text("utf-8"), ADVICE


def test_every_figure_of_a_report_is_there(page):
    for name in page.stored():
        folder = DOCS / "results" / name
        figures = re.findall(r"\]\((figures/[^)]+)\)", (folder / "report.md").read_text("utf-8"))
        assert figures
        assert all((folder / one).exists() for one in figures), ADVICE


def test_the_overview_is_what_the_results_give(page):
    text = page.PAGE.read_text("utf-8")
    assert page.filled(text, {"runs": page.overview(page.stored())}) == text, ADVICE


def test_every_report_is_in_the_navigation(page):
    navigation = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    assert all(f"results/{name}/report.md" in navigation for name in page.stored())


def test_runs_follow_the_papers_protocol(page):
    for results in page.stored().values():
        protocol = results.protocol
        assert (protocol["splits"], protocol["trials"], protocol["space"]) == (10, 100, "paper")
        assert "--preset paper" in results.run["command"]
