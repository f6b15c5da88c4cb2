"""Definitions of PyTorch calls in terms of simpler ones, as PyTorch text.

It is interpreted by the same walk as a task's code, and never run: a call is replaced by its body on the call's
arguments. Arguments that only affect shape are omitted, and so are tiny numbers that only guard a division; an
argument that is None, or not given, has its default. `top` is the shift of an exponential, and `reduced` the reduction
that `reduction` names: words of the vocabulary that PyTorch lacks.
"""

from __future__ import annotations

import ast
from functools import lru_cache

from step_runtime.base.syntax import parse_python

_TEXT = """
# --- arithmetic ---
def square(input): return input ** 2
def sqrt(input): return input ** 0.5
def rsqrt(input): return 1 / torch.sqrt(input)
def reciprocal(input): return input ** -1
def exp2(input): return 2 ** input
def expm1(input): return torch.exp(input) - 1
def log1p(input): return torch.log(1 + input)
def log2(input): return torch.log(input) / math.log(2)
def add(input, other, alpha=1): return input + alpha * other
def sub(input, other, alpha=1): return input - alpha * other
subtract = sub
def float_power(input, exponent): return input ** exponent
def hypot(input, other): return torch.sqrt(input ** 2 + other ** 2)
def xlogy(input, other): return input * torch.log(other)
def entr(input): return -input * torch.log(input)
def sinh(input): return (torch.exp(input) - torch.exp(-input)) / 2
def cosh(input): return (torch.exp(input) + torch.exp(-input)) / 2
def erfc(input): return 1 - torch.erf(input)
def masked_fill(input, mask, value): return torch.where(mask, value, input)
def log10(input): return torch.log(input) / math.log(10)
def addcmul(input, tensor1, tensor2, value=1): return input + value * (tensor1 * tensor2)
def addcdiv(input, tensor1, tensor2, value=1): return input + value * (tensor1 / tensor2)
def lerp(input, end, weight): return (1 - weight) * input + weight * end
def clamp_min(input, min): return torch.maximum(input, min)
def clamp_max(input, max): return torch.minimum(input, max)
def logaddexp(input, other): return torch.log(torch.exp(input) + torch.exp(other))
def logaddexp2(input, other): return torch.log2(2 ** input + 2 ** other)
def xlog1py(input, other): return input * torch.log(1 + other)
def erfcx(input): return torch.exp(input ** 2) * torch.erfc(input)
def ndtr(input): return 0.5 * (1 + torch.erf(input / 2 ** 0.5))
def log_ndtr(input): return torch.log(torch.ndtr(input))
def sinc(input): return torch.sin(input) / input
def arctan2(input, other): return torch.arctan(input / other)
atan2 = arctan2
def tan(input): return torch.sin(input) / torch.cos(input)
def copysign(input, other): return torch.abs(input) * torch.sign(other)
def remainder(input, other): return input - other * torch.floor(input / other)
fmod = remainder
def ldexp(input, other): return input * 2 ** other
def frexp(input):
    exponent = torch.floor(torch.log2(torch.abs(input)))
    return input / 2 ** exponent, exponent
def bitwise_left_shift(input, other): return input * 2 ** other
def bitwise_right_shift(input, other): return torch.floor(input / 2 ** other)
def diff(input): return input - torch.roll(input, 1)
gradient = diff
def trapezoid(input): return (input + torch.roll(input, 1)).sum() / 2
trapz = trapezoid
def cumulative_trapezoid(input): return (input + torch.roll(input, 1)).cumsum() / 2

# --- reductions ---
def mean(input): return input.sum() / input.numel()
nanmean = mean
def cov(input):
    centred = input - input.mean()
    return centred @ centred / (input.numel() - 1)
def corrcoef(input):
    centred = input - input.mean()
    centred = centred / torch.norm(centred)
    return centred @ centred
def bincount(input, weights=1): return (torch.one_hot(input) * weights).sum()
def histc(input, bins=100): return torch.one_hot(torch.bucketize(input, bins)).sum()
histogram = histc
def var(input, dim=None, unbiased=True, keepdim=False, correction=1):
    return (input - input.mean()).square().sum() / (input.numel() - unbiased * correction)
def std(input, dim=None, unbiased=True, keepdim=False, correction=1):
    return torch.sqrt(torch.var(input, dim, unbiased, keepdim, correction))
def var_mean(input, dim=None, unbiased=True, keepdim=False, correction=1):
    return torch.var(input, dim, unbiased, keepdim, correction), input.mean()
def std_mean(input, dim=None, unbiased=True, keepdim=False, correction=1):
    return torch.std(input, dim, unbiased, keepdim, correction), input.mean()
def aminmax(input): return torch.amin(input), torch.amax(input)
def vector_norm(input, ord=2): return torch.norm(input, ord)
def logsumexp(input):
    top = torch.top(input)
    return torch.log(torch.exp(input - top).sum()) + top
def logcumsumexp(input): return torch.log(torch.exp(input).cumsum())
def max_pool1d(input): return torch.amax(input)
max_pool2d = max_pool3d = adaptive_max_pool1d = adaptive_max_pool2d = adaptive_max_pool3d = max_pool1d
def avg_pool1d(input): return input.mean()
avg_pool2d = avg_pool3d = adaptive_avg_pool1d = adaptive_avg_pool2d = adaptive_avg_pool3d = avg_pool1d
def lp_pool1d(input, norm_type): return torch.norm(input, norm_type)
lp_pool2d = lp_pool3d = lp_pool1d

# --- products ---
def outer(input, vec2): return torch.einsum('n,m->nm', input, vec2)
def inner(input, other): return input @ other
def vecdot(x, y): return (x * y).sum()
def addmm(input, mat1, mat2, beta=1, alpha=1): return beta * input + alpha * (mat1 @ mat2)
baddbmm = addbmm = addmv = addmm
def addr(input, vec1, vec2, beta=1, alpha=1): return beta * input + alpha * torch.outer(vec1, vec2)
def cross(input, other):
    return torch.roll(input, 1) * torch.roll(other, 2) - torch.roll(input, 2) * torch.roll(other, 1)
def vander(x, N=1): return x ** torch.arange(N)
def bilinear(input1, input2, weight, bias=0): return torch.einsum('n,onm,m->o', input1, weight, input2) + bias
def embedding(input, weight): return torch.index_select(weight, 0, input)
def embedding_bag(input, weight): return torch.index_select(weight, 0, input).sum()
def linear(input, weight, bias=0): return input @ weight + bias
conv1d = conv2d = conv3d = conv_transpose1d = conv_transpose2d = conv_transpose3d = linear

# --- activations ---
def relu(input): return torch.maximum(input, 0)
def relu6(input): return torch.clamp(input, 0, 6)
def hardtanh(input, min_val=-1, max_val=1): return torch.clamp(input, min_val, max_val)
def leaky_relu(input, negative_slope=0.01): return torch.where(input > 0, input, negative_slope * input)
def elu(input, alpha=1): return torch.where(input > 0, input, alpha * (torch.exp(input) - 1))
def sigmoid(input): return 1 / (1 + torch.exp(-input))
expit = sigmoid
def hardsigmoid(input): return torch.clamp(input + 3, 0, 6) / 6
def hardswish(input): return input * torch.hardsigmoid(input)
def gelu(input, approximate='none'):
    inner = 0.7978845608028654 * (input + 0.044715 * input ** 3)
    return 0.5 * input * (1 + (torch.tanh(inner) if approximate == 'tanh' else torch.erf(input / 2 ** 0.5)))
def selu(input): return 1.0507009873554805 * torch.elu(input, 1.6732632423543772)
def celu(input, alpha=1): return torch.where(input > 0, input, alpha * (torch.exp(input / alpha) - 1))
def prelu(input, weight): return torch.where(input > 0, input, weight * input)
def threshold(input, threshold, value): return torch.where(input > threshold, input, value)
def hardshrink(input, lambd=0.5): return torch.where(torch.abs(input) > lambd, input, 0)
def logsigmoid(input): return torch.log(torch.sigmoid(input))
def logit(input): return torch.log(input / (1 - input))
def silu(input): return input * torch.sigmoid(input)
swish = silu
def mish(input): return input * torch.tanh(torch.softplus(input))
def softplus(input): return torch.log(1 + torch.exp(input))
def softsign(input): return input / (1 + torch.abs(input))
def tanhshrink(input): return input - torch.tanh(input)
def softshrink(input, lambd=0.5): return torch.sign(input) * torch.maximum(torch.abs(input) - lambd, 0)
def rrelu(input, lower=0.125, upper=0.3333333333333333): return torch.leaky_relu(input, (lower + upper) / 2)
def glu(input, dim=-1):
    value, gate = input.chunk(2, dim)
    return value * torch.sigmoid(gate)
def softmax(input):
    weights = torch.exp(input - torch.top(input))
    return weights / weights.sum()
def softmin(input): return torch.softmax(-input)
def log_softmax(input): return input - torch.logsumexp(input)
def gumbel_softmax(input, tau=1): return torch.softmax(input / tau)

# --- normalizations ---
def normalize(input, p=2): return input / torch.norm(input, p)
def layer_norm(input, normalized_shape, weight=1, bias=0, eps=1e-5):
    centred = input - input.mean()
    return centred / torch.sqrt(centred.square().mean() + eps) * weight + bias
def batch_norm(input, running_mean, running_var, weight=1, bias=0, training=False, momentum=0.1, eps=1e-5):
    centred = input - (input.mean() if training else running_mean)
    variance = centred.square().mean() if training else running_var
    if training:
        running_mean.lerp_(input.mean(), momentum)
        running_var.lerp_(torch.var(input), momentum)
    return centred / torch.sqrt(variance + eps) * weight + bias
def instance_norm(
    input, running_mean=None, running_var=None, weight=1, bias=0, use_input_stats=True, momentum=0.1, eps=1e-5
):
    return torch.batch_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
def group_norm(input, num_groups, weight=1, bias=0, eps=1e-5): return torch.layer_norm(input, 0, weight, bias, eps)
def rms_norm(input, normalized_shape, weight=1, eps=0):
    return input / torch.sqrt(input.square().mean() + eps) * weight
def native_layer_norm(input, normalized_shape, weight=1, bias=0, eps=1e-5):
    inverse = torch.rsqrt(torch.var(input, correction=0) + eps)
    return torch.layer_norm(input, 0, weight, bias, eps), input.mean(), inverse
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1):
    return input / (k + alpha * input.square().mean()) ** beta
def weight_norm(v, g): return g * v / torch.norm(v)

# --- cells and layers of them; gates are in PyTorch's order ---
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=0, b_hh=0): return torch.tanh(input @ w_ih + b_ih + hx @ w_hh + b_hh)
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=0, b_hh=0): return torch.relu(input @ w_ih + b_ih + hx @ w_hh + b_hh)
def gru_cell(input, hx, w_ih, w_hh, b_ih=0, b_hh=0):
    r, z, n = (input @ w_ih + b_ih).chunk(3, -1)
    r_hh, z_hh, n_hh = (hx @ w_hh + b_hh).chunk(3, -1)
    z = torch.sigmoid(z + z_hh)
    n = torch.tanh(n + torch.sigmoid(r + r_hh) * n_hh)
    return (1 - z) * n + z * hx
def lstm_cell(input, hx, w_ih, w_hh, b_ih=0, b_hh=0):
    h, c = hx
    i, f, g, o = (input @ w_ih + b_ih + h @ w_hh + b_hh).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c

# --- distances and losses ---
def cosine_similarity(x1, x2): return (x1 * x2).sum() / (torch.norm(x1) * torch.norm(x2))
def cdist(x1, x2, p=2): return torch.norm(x1 - x2, p)
def pdist(input, p=2): return torch.norm(input - torch.roll(input, 1), p)
pairwise_distance = dist = cdist
def huber_loss(input, target, reduction='mean', delta=1):
    far = torch.abs(input - target)
    return torch.reduced(torch.where(far < delta, 0.5 * far ** 2, delta * (far - 0.5 * delta)), reduction)
def smooth_l1_loss(input, target, reduction='mean', beta=1):
    far = torch.abs(input - target)
    return torch.reduced(torch.where(far < beta, 0.5 * far ** 2 / beta, far - 0.5 * beta), reduction)
def margin_ranking_loss(input1, input2, target, margin=0, reduction='mean'):
    return torch.reduced(torch.maximum(margin - target * (input1 - input2), 0), reduction)
def soft_margin_loss(input, target, reduction='mean'):
    return torch.reduced(torch.log(1 + torch.exp(-target * input)), reduction)
def triplet_margin_loss(anchor, positive, negative, margin=1, p=2, reduction='mean'):
    nearer = torch.norm(anchor - positive, p) - torch.norm(anchor - negative, p)
    return torch.reduced(torch.maximum(nearer + margin, 0), reduction)
def poisson_nll_loss(input, target, reduction='mean'):
    return torch.reduced(torch.exp(input) - target * input, reduction)
def l1_loss(input, target, reduction='mean'): return torch.reduced(torch.abs(input - target), reduction)
def mse_loss(input, target, reduction='mean'): return torch.reduced((input - target).square(), reduction)
def kl_div(input, target, reduction='mean', log_target=False):
    return torch.reduced(
        torch.exp(target) * (target - input) if log_target else target * (torch.log(target) - input), reduction
    )
def binary_cross_entropy(input, target, weight=1, size_average=None, reduce=None, reduction='mean'):
    loss = target * torch.log(input) + (1 - target) * torch.log(1 - input)
    return torch.reduced(-(weight * loss), reduction)
def binary_cross_entropy_with_logits(
    input, target, weight=1, size_average=None, reduce=None, reduction='mean', pos_weight=1
):
    more = (pos_weight - 1) * target * torch.log(1 + torch.exp(-input))
    return torch.reduced(weight * (torch.log(1 + torch.exp(input)) - target * input + more), reduction)
bce_with_logits_loss = binary_cross_entropy_with_logits
bce_loss = binary_cross_entropy
def cross_entropy(
    input, target, weight=1, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0
):
    every = -(weight * target * torch.log_softmax(input)).sum()
    smooth = -(weight * torch.log_softmax(input)).mean()
    return torch.reduced((1 - label_smoothing) * every + label_smoothing * smooth, reduction)
def nll_loss(input, target, weight=1, size_average=None, ignore_index=-100, reduce=None, reduction='mean'):
    return torch.reduced(-(weight * target * input).sum(), reduction)
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction='mean'):
    return torch.reduced(0.5 * (torch.log(var) + (input - target) ** 2 / var), reduction)
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction='mean'):
    alike = torch.cosine_similarity(input1, input2)
    return torch.reduced(torch.where(target > 0, 1 - alike, torch.maximum(alike - margin, 0)), reduction)
def hinge_embedding_loss(input, target, margin=1, size_average=None, reduce=None, reduction='mean'):
    return torch.reduced(torch.where(target > 0, input, torch.maximum(margin - input, 0)), reduction)
def multi_margin_loss(input, target, p=1, margin=1, weight=1, size_average=None, reduce=None, reduction='mean'):
    behind = torch.maximum(margin - (target * input).sum() + input, 0)
    return torch.reduced(weight * (behind ** p).mean(), reduction)
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction='mean'):
    behind = torch.maximum(1 - (target * input).sum() + input, 0)
    return torch.reduced(behind.mean(), reduction)
def multilabel_soft_margin_loss(input, target, weight=1, size_average=None, reduce=None, reduction='mean'):
    loss = target * torch.logsigmoid(input) + (1 - target) * torch.logsigmoid(-input)
    return torch.reduced(-(weight * loss).mean(), reduction)
def ctc_loss(log_probs, targets, input_lengths=0, target_lengths=0, blank=0, reduction='mean', zero_infinity=False):
    emitted = torch.gather(log_probs, 2, targets)
    score = 0
    for t in range(input_lengths):
        score = torch.logaddexp(torch.logaddexp(score, torch.roll(score, 1)), torch.roll(score, 2)) + emitted
    return torch.reduced(-torch.logaddexp(score, torch.roll(score, 1)), reduction)
def scaled_dot_product_attention(query, key, value, attn_mask=0, dropout_p=0, is_causal=False, scale=None):
    scores = query @ key / torch.sqrt(query.numel()) if scale is None else query @ key * scale
    return torch.softmax(scores + attn_mask) @ value
"""


_OTHERWISE = """
def var(input, dim=None, unbiased=True, keepdim=False, correction=1):
    return input.square().mean() - input.mean().square()
def prod(input): return torch.exp(torch.log(input).sum())
def cumprod(input): return torch.exp(torch.log(input).cumsum())
def logaddexp(input, other):
    return torch.maximum(input, other) + torch.log(1 + torch.exp(-torch.abs(input - other)))
def cosine_similarity(x1, x2): return (x1 / torch.norm(x1) * (x2 / torch.norm(x2))).sum()
def cdist(x1, x2, p=2): return torch.sqrt(x1.square().sum() + x2.square().sum() - 2 * (x1 * x2).sum())
def cross_entropy(
    input, target, weight=1, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0
):
    every = weight * (torch.logsumexp(input) - (target * input).sum())
    smooth = weight * (torch.logsumexp(input) - input.mean())
    return torch.reduced((1 - label_smoothing) * every + label_smoothing * smooth, reduction)
def binary_cross_entropy_with_logits(
    input, target, weight=1, size_average=None, reduce=None, reduction='mean', pos_weight=1
):
    loss = pos_weight * target * torch.log(torch.sigmoid(input)) + (1 - target) * torch.log(1 - torch.sigmoid(input))
    return torch.reduced(-(weight * loss), reduction)
"""
"""Other ways to compute some of these, whose sums and products are others: a reference is read in both."""


@lru_cache(maxsize=1)
def definitions() -> dict[str, ast.FunctionDef]:
    """Every defined call by its name, and without underscores, as modules such as `LayerNorm` are written."""
    return _read(_TEXT)


@lru_cache(maxsize=1)
def other_definitions() -> dict[str, ast.FunctionDef]:
    """As `definitions`, where a call may as well be computed in another way."""
    return _read(_OTHERWISE)


def _read(text: str) -> dict[str, ast.FunctionDef]:
    found: dict[str, ast.FunctionDef] = {}
    for statement in parse_python(text).body:
        match statement:
            case ast.FunctionDef(name=name):
                found[name] = statement
            case ast.Assign(targets=targets, value=ast.Name(id=name)):
                found |= {target.id: found[name] for target in targets if isinstance(target, ast.Name)}
    return {name.replace("_", ""): definition for name, definition in found.items()} | found
