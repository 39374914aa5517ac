"""The numbers by which cuDNN's backend API names things, of those that are used here.

Source: NVIDIA's header cudnn_graph.h of cuDNN 9. Each class is one of its enumerations, and each
name one of its own without the prefix; cuDNN keeps the numbers from version to version.
"""

from enum import IntEnum


class DataType(IntEnum):
    """`cudnnDataType_t`, without CUDNN_DATA_."""

    FLOAT = 0
    HALF = 2
    BFLOAT16 = 9


class ConvolutionMode(IntEnum):
    """`cudnnConvolutionMode_t`, without CUDNN_."""

    CROSS_CORRELATION = 1


class PointwiseMode(IntEnum):
    """`cudnnPointwiseMode_t`, without CUDNN_POINTWISE_."""

    ADD = 0
    RELU_FWD = 100


class NanPropagation(IntEnum):
    """`cudnnNanPropagation_t`, without CUDNN_."""

    PROPAGATE_NAN = 1


class HeuristicMode(IntEnum):
    """`cudnnBackendHeurMode_t`, without CUDNN_HEUR_MODE_."""

    FALLBACK = 2
    A = 3


class NumericalNote(IntEnum):
    """`cudnnBackendNumericalNote_t`, without CUDNN_NUMERICAL_NOTE_: what an engine does."""

    NONDETERMINISTIC = 4


class DescriptorType(IntEnum):
    """`cudnnBackendDescriptorType_t`, without CUDNN_BACKEND_ and _DESCRIPTOR."""

    POINTWISE = 0
    CONVOLUTION = 1
    ENGINE = 2
    ENGINECFG = 3
    ENGINEHEUR = 4
    EXECUTION_PLAN = 5
    OPERATION_CONVOLUTION_FORWARD = 10
    OPERATION_POINTWISE = 13
    OPERATIONGRAPH = 15
    VARIANT_PACK = 16
    TENSOR = 17


class AttributeType(IntEnum):
    """`cudnnBackendAttributeType_t`, without CUDNN_TYPE_."""

    HANDLE = 0
    DATA_TYPE = 1
    BOOLEAN = 2
    INT64 = 3
    FLOAT = 4
    DOUBLE = 5
    VOID_PTR = 6
    CONVOLUTION_MODE = 7
    HEUR_MODE = 8
    NAN_PROPOGATION = 10  # as it is spelt there
    NUMERICAL_NOTE = 11
    POINTWISE_MODE = 14
    BACKEND_DESCRIPTOR = 15


class Attribute(IntEnum):
    """`cudnnBackendAttributeName_t`, without CUDNN_ATTR_."""

    POINTWISE_MODE = 0
    POINTWISE_MATH_PREC = 1
    POINTWISE_NAN_PROPAGATION = 2
    POINTWISE_RELU_LOWER_CLIP = 3
    POINTWISE_RELU_LOWER_CLIP_SLOPE = 5

    CONVOLUTION_COMP_TYPE = 100
    CONVOLUTION_CONV_MODE = 101
    CONVOLUTION_DILATIONS = 102
    CONVOLUTION_FILTER_STRIDES = 103
    CONVOLUTION_POST_PADDINGS = 104
    CONVOLUTION_PRE_PADDINGS = 105
    CONVOLUTION_SPATIAL_DIMS = 106

    ENGINEHEUR_MODE = 200
    ENGINEHEUR_OPERATION_GRAPH = 201
    ENGINEHEUR_RESULTS = 202

    ENGINECFG_ENGINE = 300

    EXECUTION_PLAN_HANDLE = 400
    EXECUTION_PLAN_ENGINE_CONFIG = 401
    EXECUTION_PLAN_WORKSPACE_SIZE = 402

    OPERATION_CONVOLUTION_FORWARD_ALPHA = 700
    OPERATION_CONVOLUTION_FORWARD_BETA = 701
    OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702
    OPERATION_CONVOLUTION_FORWARD_W = 703
    OPERATION_CONVOLUTION_FORWARD_X = 704
    OPERATION_CONVOLUTION_FORWARD_Y = 705

    OPERATION_POINTWISE_PW_DESCRIPTOR = 750
    OPERATION_POINTWISE_XDESC = 751
    OPERATION_POINTWISE_BDESC = 752
    OPERATION_POINTWISE_YDESC = 753

    OPERATIONGRAPH_HANDLE = 800
    OPERATIONGRAPH_OPS = 801

    TENSOR_BYTE_ALIGNMENT = 900
    TENSOR_DATA_TYPE = 901
    TENSOR_DIMENSIONS = 902
    TENSOR_STRIDES = 903
    TENSOR_UNIQUE_ID = 906
    TENSOR_IS_VIRTUAL = 907

    VARIANT_PACK_UNIQUE_IDS = 1000
    VARIANT_PACK_DATA_POINTERS = 1001
    VARIANT_PACK_WORKSPACE = 1003

    ENGINE_NUMERICAL_NOTE = 1303
