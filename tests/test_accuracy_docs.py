"""The page on accuracy is what the stored results give: nothing in its tables is typed by hand."""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parent.parent / "docs"


def loaded(path: Path) -> types.ModuleType:
    sys.path.insert(0, str(path.parent))  # one program imports the other
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


@pytest.fixture(scope="module")
def page() -> types.ModuleType:
    return loaded(DOCS / "accuracy_page.py")


def rows(model: str, nll: list[float]) -> list[dict]:
    metrics = [{"nll": one, "top1": 1 / one, "calibration_error": 0.01} for one in nll]
    common = {"data": "noguchi", "task": "rivals", "part": "test", "model": model}
    return [common | {"split": split, "metrics": one} for split, one in enumerate(metrics)]


def test_the_tables_are_what_the_results_give(page):
    text = page.PAGE.read_text("utf-8")
    assert page.filled(text, page.tables()) == text, "run: python docs/accuracy_page.py"


def test_every_model_is_measured_on_every_split(page):
    counts: dict[tuple, set[int]] = {}
    for row in page.read(page.RESULTS):
        key = (row["data"], row["task"], row["part"], row["model"])
        counts.setdefault(key, set()).add(row["split"])
    assert counts
    for (*_, part, _), splits in counts.items():
        assert splits == ({0} if part.endswith(page.ALL_SPLITS) else set(range(page.SPLITS)))


def test_the_readme_says_how_often_it_is_first(page):
    _, _, *lines = page.standing(page.read(page.RESULTS)).splitlines()
    verdicts = [line.split(" | ")[1] for line in lines]
    first, tied = verdicts.count("first"), verdicts.count("tied with the first")
    text = " ".join((DOCS.parent / "README.md").read_text("utf-8").split())
    assert f"the best likelihood on {first} of {len(lines)} data sets" in text
    assert f"on {tied} of {len(lines)} it is tied with the best" in text


def test_a_model_that_lacks_splits_is_not_taken(page):
    some, all_of_them = rows("mnl", [1.0] * 9), rows("sda", [1.0] * 10)
    pooled = {**all_of_them[0], "part": "test, all splits"}
    study = {"data": "noguchi", "change": "l = 8", "single": [[1.0, 50.0]]}
    assert page.whole([*some, *all_of_them, pooled, study]) == [*all_of_them, pooled, study]


def test_a_rival_is_marked_only_beyond_chance(page):
    noise = np.array([0.0, 0.1, -0.1, 0.05, -0.05])
    values = {"auto": 1 + noise, "worse": 2 + noise**2, "equal": 1 - noise}
    assert page.verdicts(values, -1) == {"worse": "−", "equal": ""}
    assert page.verdicts(values, 1) == {"worse": "+", "equal": ""}


def test_standing_says_who_is_first(page):
    given = rows("auto", [1.0, 1.1, 1.2]) + rows("mnl", [2.0, 2.1, 2.2])
    assert page.standing(given).splitlines()[-1] == (
        "| Noguchi | first | auto | 1 of 1 | first | auto | 1 of 1 |"
    )
    given = rows("auto", [1.0, 1.1, 1.2]) + rows("mnl", [0.9, 1.2, 1.1])
    assert "| tied with the first | mnl | 0 of 1 |" in page.standing(given)


def test_a_new_measurement_replaces_the_old_one(page, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "RESULTS", tmp_path / "accuracy.jsonl")
    monkeypatch.setattr(page, "STUDY", tmp_path / "study.jsonl")
    for name, nll in (("a", 1.0), ("b", 3.0)):
        lines = [page.json.dumps(one) for one in rows("auto", [nll] * page.SPLITS)]
        page.RESULTS.write_text("".join(line + "\n" for line in lines))
        page.RESULTS.rename(tmp_path / name)
    page.take_over([tmp_path / "a"])
    page.take_over([tmp_path / "b"])
    assert [row["metrics"]["nll"] for row in page.read(page.RESULTS)] == [3.0] * page.SPLITS


def test_the_calibration_of_all_items():
    """By hand in bins of one item; close to what chance gives where people follow the model."""
    of_all = loaded(DOCS.parent / "benchmarks" / "accuracy.py").of_all
    few = types.SimpleNamespace(
        offsets=np.array([0, 2, 4]), sizes=np.array([2, 2]), chosen=np.array([0, 1])
    )
    model = types.SimpleNamespace(predict_proba=lambda _: np.array([0.7, 0.3, 0.5, 0.5]))
    assert of_all(model, few)["calibration_of_all"] == pytest.approx((0.3 + 0.3 + 0.5 + 0.5) / 4)
    rng = np.random.default_rng(1)
    p = rng.uniform(size=2000)
    many = types.SimpleNamespace(
        offsets=2 * np.arange(2001), sizes=np.full(2000, 2), chosen=(rng.random(2000) > p) * 1
    )
    ratios = []
    for power in (1, 3):  # the true probabilities, and too extreme ones
        odds = (p / (1 - p)) ** power
        told = np.stack([odds / (1 + odds), 1 / (1 + odds)], 1).reshape(-1)
        found = of_all(types.SimpleNamespace(predict_proba=lambda _, told=told: told), many)
        ratios.append(found["calibration_of_all"] / found["calibration_of_all_by_chance"])
    assert ratios[0] < 1.5
    assert ratios[1] > 5
