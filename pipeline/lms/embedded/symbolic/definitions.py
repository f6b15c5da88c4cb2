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
def lerp(input, end, weight): return input + weight * (end - input)
def clamp_min(input, min): return torch.maximum(input, min)
def clamp_max(input, max): return torch.minimum(input, max)
def logaddexp(input, other): return torch.log(torch.exp(input) + torch.exp(other))

# --- reductions ---
def mean(input): return input.sum() / input.numel()
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
max_pool2d = adaptive_max_pool1d = max_pool1d
def avg_pool1d(input): return input.mean()
avg_pool2d = adaptive_avg_pool1d = avg_pool1d

# --- products ---
def outer(input, vec2): return torch.einsum('n,m->nm', input, vec2)
def inner(input, other): return input @ other
def vecdot(x, y): return (x * y).sum()
def addmm(input, mat1, mat2): return input + mat1 @ mat2
baddbmm = addmv = addmm
def linear(input, weight, bias=0): return input @ weight + bias
conv1d = conv2d = conv3d = linear

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
def softmax(input):
    weights = torch.exp(input - torch.top(input))
    return weights / weights.sum()
def softmin(input): return torch.softmax(-input)
def log_softmax(input): return input - torch.logsumexp(input)

# --- normalizations ---
def normalize(input, p=2): return input / torch.norm(input, p)
def layer_norm(input, normalized_shape, weight=1, bias=0, eps=1e-5):
    centred = input - input.mean()
    return centred / torch.sqrt(centred.square().mean() + eps) * weight + bias
def batch_norm(input, running_mean, running_var, weight=1, bias=0, training=False, momentum=0.1, eps=1e-5):
    return torch.layer_norm(input, 0, weight, bias, eps)
def instance_norm(input, running_mean, running_var, weight=1, bias=0, use_input_stats=True, momentum=0.1, eps=1e-5):
    return torch.layer_norm(input, 0, weight, bias, eps)
def group_norm(input, num_groups, weight=1, bias=0, eps=1e-5): return torch.layer_norm(input, 0, weight, bias, eps)
def rms_norm(input, normalized_shape, weight=1, eps=0):
    return input / torch.sqrt(input.square().mean() + eps) * weight

# --- distances and losses ---
def cosine_similarity(x1, x2): return (x1 * x2).sum() / (torch.norm(x1) * torch.norm(x2))
def cdist(x1, x2, p=2): return torch.norm(x1 - x2, p)
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
def binary_cross_entropy(input, target, reduction='mean'):
    loss = target * torch.log(input) + (1 - target) * torch.log(1 - input)
    return torch.reduced(-loss, reduction)
def binary_cross_entropy_with_logits(input, target, reduction='mean'):
    return torch.reduced(torch.log(1 + torch.exp(input)) - target * input, reduction)
bce_with_logits_loss = binary_cross_entropy_with_logits
bce_loss = binary_cross_entropy
def cross_entropy(input, target, reduction='mean'):
    return torch.reduced(-(target * torch.log_softmax(input)).sum(), reduction)
def scaled_dot_product_attention(query, key, value, attn_mask=0):
    return torch.softmax(query @ key / torch.sqrt(query.numel()) + attn_mask) @ value
"""


@lru_cache(maxsize=1)
def definitions() -> dict[str, ast.FunctionDef]:
    """Every defined call by its name, and without underscores, as modules such as `LayerNorm` are written."""
    found: dict[str, ast.FunctionDef] = {}
    for statement in parse_python(_TEXT).body:
        match statement:
            case ast.FunctionDef(name=name):
                found[name] = statement
            case ast.Assign(targets=targets, value=ast.Name(id=name)):
                found |= {target.id: found[name] for target in targets if isinstance(target, ast.Name)}
    return {name.replace("_", ""): definition for name, definition in found.items()} | found
