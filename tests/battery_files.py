"""Cases of the battery: model files, data files and checkpoints that were altered."""

import json
import struct
from pathlib import Path

import numpy as np
import safetensors.numpy

import setwise as sw
from battery import Battery, cli
from battery_data import csv, logit, model_file, quick, read, sound_probabilities, table, text
from setwise import scoring


def add(battery: Battery) -> None:
    """Add the cases of this module."""
    _models(battery)
    _data(battery)
    _checkpoints(battery)


def _models(battery: Battery) -> None:
    loaders = {"load": sw.load, "scorer.load": scoring.load_scorer}
    spoilt = {
        "an empty file": lambda whole: b"",
        "half of the file": lambda whole: whole[: len(whole) // 2],
        "a file that lost its last byte": lambda whole: whole[:-1],
        "a file with a byte more": lambda whole: whole + b"x",
        "a changed byte in the middle": lambda whole: _flipped(whole, len(whole) // 2),
        "a changed byte at the end": lambda whole: _flipped(whole, len(whole) - 1),
        "a changed byte in the header": lambda whole: _flipped(whole, 40),
        "a header that claims too much": lambda whole: struct.pack("<Q", 2**60) + whole[8:],
        "text": lambda whole: b"hello, world",
        "a zip file": lambda whole: b"PK\x03\x04" + bytes(60),
        "a pickle": lambda whole: b"\x80\x04K\x01.",
        "zeros": lambda whole: bytes(len(whole)),
        "another safetensors file": lambda whole: safetensors.numpy.save({"a": np.ones(3)}),
    }
    for name, spoil in spoilt.items():
        for loader, load in loaders.items():
            battery.refused(
                f"{loader} of {name}",
                lambda spoil=spoil, load=load: load(
                    text(spoil(model_file().read_bytes()), "bad.setwise")
                ),
                "bad.setwise",
            )
    for loader, load in loaders.items():
        battery.right(
            f"{loader} of a sound file",
            lambda load=load: np.asarray(load(model_file()).predict_proba(table())),
            lambda p: np.allclose(p, logit().predict_proba(table()), atol=1e-6),
        )
        battery.refused(
            f"{loader} of a data file",
            lambda load=load: (sw.save_choices(read(), "d.setwise-data"), load("d.setwise-data")),
            "d.setwise-data",
        )
    battery.right(
        "a model of UNIX times",
        lambda: sw.MNL().fit(read(table(cost=table()["cost"] + 1.7e9))),
        lambda model: (
            sound_probabilities(table(cost=table()["cost"] + 1.7e9), model)
            and np.allclose(
                model.predict_proba(table(cost=table()["cost"] + 1.7e9)),
                logit().predict_proba(table()),
                atol=1e-5,
            )
        ),
    )


def _flipped(whole: bytes, place: int) -> bytes:
    return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]


def _data(battery: Battery) -> None:
    def stored() -> Path:
        sw.save_choices(read(context=["age"], group="person"), "d.setwise-data")
        return Path("d.setwise-data")

    expected = None

    def answer() -> np.ndarray:
        return sw.MNL().fit(sw.open_choices("d.setwise-data")).coef_

    battery.right(
        "a sound data file",
        lambda: (stored(), answer())[1],
        lambda found: np.allclose(found, logit().coef_),
    )
    del expected
    for share in np.linspace(0, 0.999, 40):

        def flipped(share: float = share) -> np.ndarray:
            path = stored()
            whole = path.read_bytes()
            place = 1 << 20  # the arrays begin here
            path.write_bytes(_flipped(whole, place + int(share * (len(whole) - place))))
            return answer()

        battery.either(
            f"a data file with a flipped bit at {share:.1%}",
            flipped,
            lambda found: np.allclose(found, logit().coef_),
            "d.setwise-data",
        )
    for name, spoil in {
        "cut in half": lambda whole: whole[: len(whole) // 2],
        "with a byte more": lambda whole: whole + b"x",
        "of zeros": lambda whole: bytes(len(whole)),
        "with a changed header": lambda whole: _flipped(whole, 60),
        "that is empty": lambda whole: b"",
        "that is a model": lambda whole: model_file().read_bytes(),
    }.items():
        battery.refused(
            f"a data file {name}",
            lambda spoil=spoil: (
                stored(),
                text(spoil(Path("d.setwise-data").read_bytes()), "d.setwise-data"),
                answer(),
            ),
            "d.setwise-data",
        )
        battery.refused(
            f"cli: a data file {name}",
            lambda spoil=spoil: (
                stored(),
                text(spoil(Path("d.setwise-data").read_bytes()), "d.setwise-data"),
                cli("fit", "d.setwise-data", "--model", "mnl", "--out", "m"),
            )[-1],
            "d.setwise-data",
        )
    battery.right(
        "a table beside the data file",
        lambda: (csv(), stored(), cli("check", "d.setwise-data"))[-1],
        lambda done: done.code == 0,
    )


def _checkpoints(battery: Battery) -> None:
    def after(spoil: object) -> object:
        quick().fit(read(), checkpoint="c")
        for path in Path("c").rglob("*"):
            if path.is_file():
                path.write_bytes(spoil(path.read_bytes()))
        return quick().fit(read(), checkpoint="c").predict_proba(read())

    def same(found: object) -> bool:
        return bool(np.array_equal(found, quick().fit(read()).predict_proba(read())))

    battery.either(
        "a checkpoint cut in half", lambda: after(lambda whole: whole[: len(whole) // 2]), same
    )
    battery.either("an empty checkpoint", lambda: after(lambda whole: b""), same)
    battery.either(
        "a checkpoint with a flipped bit",
        lambda: after(lambda whole: _flipped(whole, len(whole) - 5)),
        same,
    )
    battery.either(
        "a checkpoint of other data",
        lambda: (
            quick().fit(read(items=["time"]), checkpoint="c"),
            quick().fit(read(), checkpoint="c").predict_proba(read()),
        )[1],
        same,
    )
    battery.refused(
        "a checkpoint that is a file",
        lambda: (text("x", "c"), quick().fit(read(), checkpoint="c")),
        "c",
    )
    battery.right(
        "no stray JSON constants in a model file", lambda: json.dumps(logit().get_params()), bool
    )
