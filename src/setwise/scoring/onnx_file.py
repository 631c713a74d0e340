"""A model file as an ONNX file that takes a table's own values."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from setwise import __version__
from setwise._arguments import checked
from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._files import check_writable, whole_file
from setwise.choices import Schema
from setwise.scoring.folding import folded
from setwise.scoring.model_file import Artifact, without_graph
from setwise.scoring.onnx_nodes import Nodes, described, preprocessing

OPSET, IR_VERSION = 17, 8


@checked(model=check_path, out=check_path)
def export_onnx(model: str | Path, out: str | Path) -> dict[str, str]:
    """Write a model file's model as ONNX; returns the metadata that the file holds.

    Inputs, of any number of sets padded to any number of items:

    ``items`` (sets x items x features, float64)
        the item columns in the order of the metadata's "items", in the table's units: see "give"
        of each for categories and dates
    ``context`` (sets x features, float64), if the model has context
        one value per set, in the order of "context"
    ``present`` (sets x items, bool)
        which items are there, and not padding

    Outputs, float32, are ``probability`` (sets x items), zero where no item is, and, if the model
    knows an outside option, ``outside`` (sets), the probability that nothing is chosen.

    Transforms, medians for missing numbers, one column per level, weeks and months of dates and
    standardisation are in the file. Outside are reading the table, putting its rows into sets, and
    the places of levels. What training did not know gives NaN, for ONNX has no errors.

    >>> import tempfile, setwise as sw
    >>> model = sw.MNL().fit(sw.datasets.load("modecanada"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/trips.setwise")
    ...     about = export_onnx(f"{folder}/trips.setwise", f"{folder}/trips.onnx")
    >>> json.loads(about["items"])[0]
    {'column': 'cost', 'give': 'the number, as in the table'}
    """
    onnx = _onnx()
    check_writable(out, reads=[model])
    artifact = Artifact.read(model)
    if artifact.graph is None:
        raise InputError(f"{model} {without_graph(artifact.estimator)}")
    about = {
        "setwise": __version__,
        "estimator": artifact.estimator,
        "items": json.dumps(described(artifact.schema.items)),
        "context": json.dumps(described(artifact.schema.context)),
        "outside_option": json.dumps(artifact.schema.outside),
    }
    content = _model(onnx, artifact, about).SerializeToString(deterministic=True)
    with whole_file(out, len(content)) as beside:
        beside.write_bytes(content)
    return about


def _model(onnx: Any, artifact: Artifact, about: dict[str, str]) -> Any:
    assert artifact.graph is not None
    helper, single, double = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    schema = artifact.schema
    inputs = {"items": ["sets", "items", len(schema.items)]}
    if schema.context:
        inputs["context"] = ["sets", len(schema.context)]
    outputs = {"probability": ["sets", "items"]} | ({"outside": ["sets"]} if schema.outside else {})
    nodes = Nodes(onnx)
    items, present = _seen(nodes, schema)
    plain = folded(artifact.graph, artifact.arrays | artifact.constants)
    logs = nodes.graph(*plain, {"items": items, "present": present})
    _results(nodes, logs, schema.outside)
    graph = helper.make_graph(
        nodes.nodes,
        f"setwise {artifact.estimator}",
        [helper.make_tensor_value_info(name, double, shape) for name, shape in inputs.items()]
        + [helper.make_tensor_value_info("present", onnx.TensorProto.BOOL, ["sets", "items"])],
        [helper.make_tensor_value_info(name, single, shape) for name, shape in outputs.items()],
        [onnx.numpy_helper.from_array(array, name) for name, array in nodes.constants.items()],
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(
        graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="setwise",
        producer_version=__version__,
    )  # fmt: skip
    helper.set_model_props(model, about)
    onnx.checker.check_model(model, full_check=True)
    return model


def _seen(nodes: Nodes, schema: Schema) -> tuple[str, str]:
    """The items and which are present, as the model sees them: with context, with the outside."""
    items = nodes.graph(*preprocessing(schema, "items"), {"items": "items"})
    present = "present"
    # What stands where no item is may be anything, a number or not.
    there = nodes.add("Unsqueeze", present, nodes.constant([2], np.int64))
    items = nodes.add("Where", there, items, nodes.constant(0.0, np.float32))
    if schema.outside:
        items, present = _with_outside(nodes, items, present, len(schema.item_names))
    if schema.context:
        context = nodes.graph(*preprocessing(schema, "context"), {"context": "context"})
        once = nodes.add("Unsqueeze", context, nodes.constant([1], np.int64))
        shape = nodes.add("Shape", present)
        width = nodes.constant([len(schema.context_names)], np.int64)
        each = nodes.add("Expand", once, nodes.add("Concat", shape, width, axis=0))
        items = nodes.add("Concat", items, each, axis=2)
    return items, present


def _with_outside(nodes: Nodes, items: str, present: str, width: int) -> tuple[str, str]:
    """The outside option as one more item of every set: average, but for its own column."""
    pads = nodes.constant([0, 0, 0, 0, 0, 1], np.int64)
    items = nodes.add("Pad", items, pads)
    option = np.zeros((1, 1, width), np.float32)
    option[..., -1] = 1
    sets = nodes.add("Slice", nodes.add("Shape", present), *(
        nodes.constant([one], np.int64) for one in (0, 1)
    ))  # fmt: skip
    one, features = nodes.constant([1], np.int64), nodes.constant([width], np.int64)
    rows = nodes.add("Concat", sets, one, features, axis=0)
    items = nodes.add("Concat", items, nodes.add("Expand", nodes.constant(option), rows), axis=1)
    there = nodes.add("Expand", nodes.constant([[True]]), nodes.add("Concat", sets, one, axis=0))
    return items, nodes.add("Concat", present, there, axis=1)


def _results(nodes: Nodes, logs: str, outside: bool) -> None:
    probability = nodes.add("Exp", logs)
    if not outside:
        nodes.rename(probability, "probability")
        return
    first, last, end = (nodes.constant([one], np.int64) for one in (0, -1, 2**31))
    axis = nodes.constant([1], np.int64)
    nodes.rename(nodes.add("Slice", probability, first, last, axis), "probability")
    own = nodes.add("Slice", probability, last, end, axis)
    nodes.rename(nodes.add("Squeeze", own, axis), "outside")


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise InputError(
            "writing ONNX needs the package onnx: pip install 'setwise[export]'"
        ) from None
    return onnx
