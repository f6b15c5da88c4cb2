"""The names of PyTorch's calls, by what they do to flows; methods, functions and operators have one name each."""

from __future__ import annotations

SAME = frozenset(
    """
    adjoint alpha_dropout as_strided as_tensor asarray atleast_1d atleast_2d atleast_3d bfloat16 bool broadcast_to
    byte cartesian_prod channel_shuffle char chunk clone combinations conj conj_physical constant_pad_nd contiguous
    cpu cuda deg2rad detach diag diag_embed diagflat diagonal double dropout dropout1d dropout2d dropout3d dsplit
    expand expand_as expand_copy fftshift flatten flip fliplr flipud float fold from_numpy half hsplit identity
    ifftshift imag item list long moveaxis movedim nan_to_num narrow narrow_copy numpy pad permute permute_copy
    pixel_shuffle pixel_unshuffle positive rad2deg ravel real repeat repeat_interleave requires_grad_ reshape
    reshape_as resize resolve_conj resolve_neg reversed roll rot90 scalar_tensor short split split_with_sizes squeeze
    squeeze_copy swapaxes t tensor tensor_split tile to to_dense tolist transpose transpose_copy tril triu tuple type
    type_as unbind unflatten unfold unfold_copy unsafe_chunk unsafe_split unsqueeze unsqueeze_copy view view_as
    view_as_complex view_as_real view_copy vsplit
    """.split()  # noqa: SIM905
)
"""Calls that only affect shape, storage or order, or that only set elements to zero."""
ZEROS = frozenset("new_zeros zeros zeros_like".split())  # noqa: SIM905
"""Calls that give zeros,"""
CONSTANT = frozenset(
    """
    dim element_size empty empty_like finfo float32 full full_like len ndimension nelement new_full new_ones normal
    numel ones ones_like print rand rand_like randint randint_like randn randn_like randperm shape size top
    """.split()  # noqa: SIM905
)
"""and other constants."""
JOINED = frozenset(
    """
    add bitwise_or block_diag cat column_stack complex concat concatenate diagonal_scatter dstack hstack logical_or
    masked_scatter row_stack select_scatter slice_scatter stack vstack
    """.split()  # noqa: SIM905
)
"""Calls whose result depends on all arguments as they are."""
SUMMED = frozenset("count_nonzero cumprod cumsum mean nansum prod segment_reduce sum sum_to_size trace".split())  # noqa: SIM905
"""Reductions."""
PRODUCTS = frozenset("bitwise_and ger kron logical_and mul multiply outer".split())  # noqa: SIM905
"""Products,"""
CONTRACTIONS = frozenset(
    """
    bmm chain_matmul conv conv_tbc dot einsum grouped_mm inner linear_map matmul mm multi_dot mv tensordot vdot vecdot
    """.split()  # noqa: SIM905
)
"""and sums of products."""
LARGEST = frozenset("amax amin clamp clip cummax cummin fmax fmin max maximum min minimum".split())  # noqa: SIM905
"""Calls that give largest elements, or the larger one of several values,"""
LIMITS = frozenset("clamp clip fmax fmin maximum minimum".split())  # noqa: SIM905
"""and those of them that limit a value if the others are constant."""
ORDERED = frozenset(
    """
    kthvalue median mode msort nanmedian nanquantile quantile sort topk unique unique_consecutive
    """.split()  # noqa: SIM905
)
"""Calls that sort."""
PAIRS = frozenset("cummax cummin kthvalue mode sort topk".split())  # noqa: SIM905
"""Calls that give values and their indices; a few others do along a dim only."""
COMPARED = frozenset("ge greater greater_equal gt heaviside le less less_equal lt sgn sign signbit".split())  # noqa: SIM905
"""Calls that compare by size,"""
EQUAL = frozenset("bitwise_xor eq equal isclose isfinite isin isinf isnan logical_xor ne not_equal".split())  # noqa: SIM905
"""and those that compare otherwise."""
INDICES = frozenset(
    """
    argmax argmin argsort argwhere bucketize multinomial nonzero nonzero_static one_hot searchsorted unravel_index
    """.split()  # noqa: SIM905
)
"""Calls that give indices, or zeros and ones."""
ROUNDED = frozenset("ceil fix floor floor_divide frac int round trunc".split())  # noqa: SIM905
"""Calls that round."""
POSITIONS = frozenset("arange eye linspace range tril_indices triu_indices".split())  # noqa: SIM905
"""Calls that count."""
ALIASES = {
    "divide": "div", "true_divide": "div", "subtract": "sub", "rsub": "sub", "neg": "negative",
    "bitwise_not": "negative", "logical_not": "negative", "masked_fill": "where", "absolute": "abs", "swapdims": "t",
    "take_along_dim": "gather", "scatter_add": "scatter", "index_add": "scatter", "index_put": "scatter",
    "scatter_reduce": "scatter", "index_reduce": "scatter", "index_copy": "scatter", "index_fill": "scatter",
    "index_select": "gather", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "digamma": "psi", "gammaln": "lgamma", "inverse": "inv",
    "linalg_norm": "norm", "matrix_norm": "norm", "frobenius_norm": "norm", "fill": "full",
}  # fmt: skip
"""Other names of the same."""
