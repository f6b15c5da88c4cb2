"""Modules as tasks: references equal their modules, and what can't be a task is named with the module's line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pipeline import load_task as any_task
from pipeline.base.errors import UsageError
from pipeline.modules.importing import TOLERANCE, complete, import_module
from pipeline.task import main
from step_runtime import load_task, verify

B_, N_, D_ = (2, 4), (3, 5), (6, 10)


class Calls(nn.Module):
    """A module whose forward pass is a function of it and its inputs."""

    def __init__(self, forward: Callable[..., Any], width: int) -> None:
        super().__init__()
        self.own, self.linear, self.drop = forward, nn.Linear(width, width), nn.Dropout()
        self.tied = nn.Linear(width, width, bias=False)
        self.tied.weight = self.linear.weight
        self.register_buffer("scale", torch.rand(width))
        self.register_buffer("mask", torch.ones(width, width).tril().bool(), persistent=False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.own(self, *args, **kwargs)


def of(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A builder of a module that takes rows."""

    def build(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
        return Calls(forward, D), torch.randn(B, N, D)

    return build


def embedding(B: Any = B_, N: Any = N_, D: Any = D_, V: Any = (13, 17)) -> Any:
    return nn.Embedding(V, D), torch.randint(0, V, (B, N))


def named_generator(N: Any = N_, D: Any = D_) -> Any:
    return (lambda x, k: x * (k > 2)[:, None]), torch.randn(N, D), ("integers(0, 5)", (N,))


def masked(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    return (lambda x, *, keep: x.masked_fill(~keep, 0.0)), torch.randn(B, N, D), {"keep": torch.rand(N, D) > 0.5}


def attention(B: Any = B_, N: Any = N_, H: Any = (2, 3), K: Any = (4, 6)) -> Any:
    x = torch.randn(B, N, H * K)
    return nn.MultiheadAttention(H * K, H, batch_first=True), x, x, x, {"need_weights": False}


def causal(B: Any = B_, N: Any = N_, K: Any = (4, 6)) -> Any:
    function = torch.nn.functional.scaled_dot_product_attention
    return (lambda q, k, v: function(q, k, v, is_causal=True)), *(torch.randn(B, N, K) for _ in range(3))


def norms(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    return nn.Sequential(nn.BatchNorm1d(N), nn.LayerNorm(D), nn.RMSNorm(D, eps=1e-6)), torch.randn(B, N, D)


def changed_in_place(module: Calls, x: Tensor) -> Tensor:
    x = module.drop(x) + module.scale
    x /= x.exp().sum(-1, keepdim=True)
    return x.flatten(0, 1).view(*x.shape).transpose(0, 1).contiguous().transpose(1, 0)


def distances(n: int) -> Tensor:
    """As ALiBi takes them."""
    return torch.arange(n)[None, :] - torch.arange(n)[:, None]


RIGHT: dict[str, Callable[..., Any]] = {
    "tied weights": of(lambda module, x: module.tied(torch.relu(module.linear(x)))),
    "a buffer, in-place operators, dropout, moves that end where they began": of(changed_in_place),
    "several outputs": of(lambda module, x: {"a": module.linear(x), "b": (x.mean(), x > 0)}),
    "a mask by value": of(lambda module, x: x @ module.linear.weight.masked_fill(~module.mask, 0.0)),
    "constants of sizes": of(lambda module, x: x[:, 1:] * x.shape[-1] ** -0.5 + torch.arange(x.shape[-1])),
    "parts": of(lambda module, x: torch.cat([-x[..., x.shape[-1] // 2 :], *x.chunk(2, -1)[:1]], -1)),
    "a number that is spread over a constant": of(
        lambda module, x: x.sum(-1)[:, :, None] * torch.arange(x.shape[-1])
    ),
    "axes more, first or last": of(lambda module, x: torch.stack([x, x + distances(x.shape[-1])[-1]], 1).sum(1)),
    "float32 on purpose": of(lambda module, x: x.to(torch.float32).softmax(-1, dtype=torch.float32)),
    "integers": embedding, "a generator": named_generator, "kwargs and bools": masked, "norms": norms,
    "heads": attention, "a causal mask": causal,
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_reference_equals_its_module(name: str) -> None:
    """At the builder's sizes and at one more; each line that computes has a function."""
    found = import_module(RIGHT[name])
    assert found.difference is not None and found.difference <= TOLERANCE and not found.missing


def test_moves_are_one_transpose_and_dims_are_the_authors() -> None:
    """PyTorch's own attention transposes tokens and batch, and takes queries, keys and values apart by an axis of 3."""
    text = import_module(attention).text
    assert text.count(".transpose(-3, -2)") == 4 and ".permute(" not in text and ".select(" not in text
    assert "fn_matvec(H*K, 3*H*K)" in text and "fn_vmulc(N, K_value ** (-0.5))" in text


def test_what_the_catalogue_lacks_is_derived_and_named() -> None:
    found = import_module(of(lambda module, x: torch.logit(torch.sigmoid(x))))
    assert found.derived == ("fn_logit_D",)
    assert next(fn for fn in found.task.fns if fn.func_name == "fn_logit_D").apply == "return [torch.logit(input[0])]\n"


OPEN = """\
inputs: # by hand
- {name: x, dtype: fp32, dims: [D, N, B], data_gen: torch.randn}
- {name: w, dtype: "Buffer(fp32, [D, F])", dims: [1], data_gen: torch.randn}
fns: auto
outputs:
- name: y
  dtype: fp32
  dims: [F, N, B]
  data_transform:
  - |
    x = input_data['x']
    h = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) / D_value**0.5
    torch.softmax(h @ input_data['w'][0].T, -1)
sizes: {B: [2, 4], N: [3, 5], D: [6, 10], F: [11, 7]}
"""


def test_a_task_may_leave_its_functions_to_the_catalogue(tmp_path: Path) -> None:
    """Constants are those of the reference; the rest of the file stays, and errors name its lines."""
    (tmp_path / "open.yaml").write_text(OPEN)
    found = complete(tmp_path / "open.yaml")
    assert not found.derived and not found.missing and "inputs: # by hand" in found.text
    constants = {"fn_saddc_1e_m05", "fn_vdivc_D_D_xx_0_5"}
    assert {"fn_matvec_D_F", "fn_softmax_F", *constants} <= {fn.func_name for fn in found.task.fns}
    (tmp_path / "open.yaml").write_text(OPEN.replace("torch.softmax(h", "torch.rand_like(h"))
    with pytest.raises(UsageError, match=r"open.yaml:13: `torch.rand_like"):
        complete(tmp_path / "open.yaml")


def test_a_module_that_is_there_already_is_loaded_with_inputs_of_dims() -> None:
    task = any_task(nn.Linear(3, 4), lambda B=(2, 5): torch.randn(B, 3), name="linear")
    assert task.name == "linear" and task.sizes == {"B": [2, 5]}
    assert [str(type_) for type_ in task.output_types] == ["fp32 [4, B]"]


class BySize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp() if x.shape[1] > 4 else x.sin()


class ByData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp() if x.sum() > 0 else x.sin()


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


def alone(module: type[nn.Module]) -> Callable[..., Any]:
    return lambda B=B_, N=N_, D=D_: (module(), torch.randn(B, N, D))


def unknown(B: Any = B_, N: Any = N_) -> Any:
    return (lambda ids: ids + 1), torch.randint(0, 9, (B, N))


@pytest.mark.parametrize(("build", "place", "reason"), [
    (alone(BySize), "return x.exp() if x.shape[1] > 4", "expected control flow that depends on none"),
    (alone(ByData), "return x.exp() if x.sum() > 0", "expected control flow that depends on no data"),
    (alone(Random), "return x + torch.rand_like(x)", "its random numbers can be no program's"),
    (unknown, "input ids", 'expected their generator in its place: ("integers(0, 9)", (B, N))'),
    (nn.Linear, "Linear", "expected a function of dims that returns the module and its inputs"),
    (lambda N, D: None, "<lambda>", "expected dims whose defaults are two sizes or more"),
    (lambda N=(3, 5): None, "<lambda>", "expected a builder such as"),
])  # fmt: skip
def test_what_is_no_task_is_named_with_its_line(build: Callable[..., Any], place: str, reason: str) -> None:
    with pytest.raises(UsageError) as found:
        import_module(build)
    assert place in str(found.value) and reason in str(found.value)


def test_the_command_writes_a_task_whose_program_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "layers.py"
    source.write_text("import torch\ndef double(N=(3, 5), D=(6, 4)): return (lambda x: x * 2), torch.randn(N, D)\n")
    assert main([f"{source}:double", "-o", str(tmp_path / "double.yaml")]) == 0
    assert "1 function of the catalogue" in capsys.readouterr().err
    program = "x = step.Map(fn=fn_vmulc_D_2).apply(step.Bufferize(a=1).apply(x))\nreturn step.Streamify().apply(x)\n"
    verdict = verify(load_task(tmp_path / "double.yaml"), program)
    assert verdict.passed, verdict.diagnostics


def test_a_command_takes_a_module_where_it_takes_a_task(tmp_path: Path) -> None:
    from pipeline.verification.task_files import load_tasks

    (tmp_path / "layers.py").write_text(
        "import torch\ndef f(N=(3, 5), D=(6, 4)): return torch.exp, torch.randn(N, D)\n"
    )
    (task,) = load_tasks([f"{tmp_path / 'layers.py'}:f"])
    assert task.name == "f" and [fn.func_name for fn in task.fns] == ["fn_vexp_D"]
    with pytest.raises(UsageError, match="no function 'g' in it"):
        load_tasks([f"{tmp_path / 'layers.py'}:g"])


@pytest.mark.parametrize("name", ["gpt2_block", "llama_attention"])
def test_a_layer_of_transformers_is_a_task(name: str) -> None:
    pytest.importorskip("transformers")
    from tests.support.layers import LAYERS

    found = import_module(LAYERS[name])
    assert found.difference is not None and found.difference <= TOLERANCE and not found.missing and not found.derived
