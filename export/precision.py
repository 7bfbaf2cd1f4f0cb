"""How weights are stored in a model folder."""

from enum import StrEnum


class Precision(StrEnum):
    """A model folder's precision; one folder has one."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"
