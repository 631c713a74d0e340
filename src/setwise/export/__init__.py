"""Models for other programs: ONNX files, which onnxruntime runs without Python."""

from setwise.export.onnx_file import export_onnx

__all__ = ["export_onnx"]
