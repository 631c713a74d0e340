"""A model file says where its model comes from; the command line and the service show it."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

import setwise as sw
from serving import Direct
from setwise._errors import InputError
from setwise.cli import app
from setwise.scoring.model_file import Artifact

CARD = sw.Card(
    title="Trips", description="Which mode people take.", source="survey", date="2024-05-06",
    sets=10, rows=30, metrics={"nll": 0.7, "top1": 0.5}, licence="CC BY 4.0",
)  # fmt: skip


@pytest.fixture
def model():
    return sw.MNL().fit(sw.datasets.generate("mnl", sets=80, items=3, features=2).choices)


def test_the_card_is_in_the_file_and_the_model_is_the_same(model, tmp_path):
    model.save(tmp_path / "with.setwise", card=CARD)
    model.save(tmp_path / "without.setwise")
    assert Artifact.read(tmp_path / "with.setwise").card == CARD
    assert Artifact.read(tmp_path / "without.setwise").card is None
    assert (sw.load(tmp_path / "with.setwise").coef_ == model.coef_).all()


def test_the_command_shows_it(model, tmp_path):
    path = tmp_path / "with.setwise"
    model.save(path, card=CARD)
    shown = CliRunner().invoke(app, ["show", str(path)]).stdout
    for word in ("Trips", "Which mode", "survey", "2024-05-06", "30", "0.7000", "CC BY 4.0", "x1"):
        assert word in shown
    told = json.loads(CliRunner().invoke(app, ["show", str(path), "--json"]).stdout)
    assert told["card"] == CARD.to_json()
    assert (told["estimator"], told["outside_option"], told["example_sets"]) == ("MNL", False, 0)
    assert told["columns"] == [{"name": n, "role": "item", "kind": "number"} for n in ("x0", "x1")]


def test_the_service_tells_it(model, tmp_path):
    path = tmp_path / "with.setwise"
    model.save(path, card=CARD)
    client = Direct(path)
    assert client.get("/v1/model").json["card"] == CARD.to_json()
    assert client.get("/v1/models").json["models"][0]["card"]["title"] == "Trips"
    client.close()


def test_fit_writes_it(tmp_path):
    out = tmp_path / "modes.setwise"
    command = ["fit", "swissmetro", "--model", "lcl", "--max-sets", "200", "--out", str(out)]
    words = ["--title", "Modes", "--licence", "MIT", "--description", "A try.", "--epochs", "2"]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    plain = Artifact.read(out).card
    assert (plain.title, plain.licence, plain.source) == (None, None, "swissmetro")
    assert plain.date == datetime.now(UTC).date().isoformat()
    assert plain.sets == 200
    assert plain.rows is not None
    assert plain.rows > 400
    assert plain.metrics is None  # fitted to all sets
    command[3] = "sdw"
    done = CliRunner().invoke(app, [*command, *words, "--data-source", "a survey", "--json"])
    assert done.exit_code == 0, done.output
    card = Artifact.read(out).card
    told = (card.title, card.licence, card.description, card.source)
    assert told == ("Modes", "MIT", "A try.", "a survey")
    held_out = json.loads(done.stdout)["held_out"]
    assert card.metrics is not None
    assert card.metrics["nll"] == held_out["nll"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"title": ""}, "title="),
        ({"title": 3}, "title=3 must be a string"),
        ({"date": "yesterday"}, "must be a date such as"),
        ({"rows": -1}, "rows=-1"),
        ({"metrics": {"nll": float("nan")}}, "nll"),
        ({"metrics": [0.3]}, "must be a mapping"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_what_no_card_can_say_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        sw.Card(**given)


@pytest.mark.usefixtures("unchecked_types")
def test_a_card_is_a_card(model, tmp_path):
    with pytest.raises(InputError, match="must be of type Card"):
        model.save(tmp_path / "a.setwise", card={"title": "Trips"})
