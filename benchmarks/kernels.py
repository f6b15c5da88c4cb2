"""Thirteen kernels, from element-wise addition to a transformer of two layers, with one library of functions for all.

They are those of the successor of the paper's system, in our own words and without tiles. A kernel is offered every
template of the library at every length of its rows, as a chip offers them: 36 to 146 functions, of which its program
needs 1 to 25. The small ones are searched as a whole, the others split.

How to run: python -m benchmarks.kernels (some minutes; --seconds, --candidates, --kernels, --split, --write FOLDER)
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.splitting.split_search import split_all
from pipeline.synthesis import SearchBudget
from pipeline.synthesis.parallel_search import search_all
from pipeline.verification.pool import LocalWorkers
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task

_LIBRARY = """
add          - - -> -              input[0] + input[1]
sub          - - -> -              input[0] - input[1]
mul          - - -> -              input[0] * input[1]
div          - - -> -              input[0] / input[1]
exp          - -> -                torch.exp(input[0])
neg          - -> -                -input[0]
sigmoid      - -> -                torch.sigmoid(input[0])
silu         - -> -                torch.nn.functional.silu(input[0])
relu         - -> -                torch.relu(input[0])
rsqrt        - -> -                torch.rsqrt(input[0] + 1e-5)
reciprocal   - -> -                1 / input[0]
max          - - -> -              torch.maximum(input[0], input[1])
foldsum      - -> -                state[0] + input[0]
foldmax      - -> -                torch.maximum(state[0], input[0])
match        - - - -> -            (input[0] == input[1]) * input[2]
vadd         a a -> a              input[0] + input[1]
vsub         a a -> a              input[0] - input[1]
vmul         a a -> a              input[0] * input[1]
vadds        a - -> a              input[0] + input[1]
vsubs        a - -> a              input[0] - input[1]
vmuls        a - -> a              input[0] * input[1]
vdivs        a - -> a              input[0] / input[1]
vexp         a -> a                torch.exp(input[0])
vneg         a -> a                -input[0]
vsigmoid     a -> a                torch.sigmoid(input[0])
vsilu        a -> a                torch.nn.functional.silu(input[0])
vgelu        a -> a                torch.nn.functional.gelu(input[0])
vrelu        a -> a                torch.relu(input[0])
vsum         a -> -                input[0].sum()
vmean        a -> -                input[0].mean()
vmeansquare  a -> -                (input[0] * input[0]).mean()
vmax         a -> -                input[0].max()
vdot         a a -> -              (input[0] * input[1]).sum()
vsoftmax     a -> a                torch.softmax(input[0], -1)
vfoldsum     a -> a                state[0] + input[0]
axpy         a - -> a              state[0] + input[0] * input[1]
matvec       a a,b -> b            input[1] @ input[0]
vecmat       b a,b -> a            input[0] @ input[1]
"""
"""Name, the rows that each operand and the result are (`-`: a number), and the code."""
_OF_HEADS = """
vscale       a -> a                input[0] * K_value ** -0.5
scale        - -> -                input[0] * K_value ** -0.5
swap         K,H,N -> K,N,H        input[0].transpose(0, 1)
swapback     K,N,H -> K,H,N        input[0].transpose(0, 1)
rotate       a -> a                torch.cat([-input[0][K_value // 2:], input[0][:K_value // 2]])
"""
"""Of kernels with heads of K numbers."""


@dataclass(frozen=True)
class Kernel:
    """A kernel: the lengths of its rows, its sizes, its inputs by their dims, its output's, and its reference.

    An input is of the form `name: dims`, with a generator after `=`; dims have the innermost first. An input is read by
    its name. `heads` kernels are offered what only heads of K numbers need.
    """

    rows: str
    sizes: dict[str, list[int]]
    inputs: str
    output: str
    code: str
    whole: bool = False
    heads: bool = False

    def task(self, name: str) -> Task:
        """The task, with the library at its rows."""
        inputs = [
            re.fullmatch(r"(\w+): ([^=]*?)(?: = (.*))?", line.strip()) for line in self.inputs.strip().splitlines()
        ]
        parts = [found.groups() for found in inputs if found is not None]
        body = {
            "inputs": [
                {"name": each, "dtype": "fp32", "dims": dims.split(), "data_gen": data or "torch.randn"}
                for each, dims, data in parts
            ],
            "fns": [*functions(self.rows.split(), heads=self.heads, swaps="H" in self.sizes)],
            "outputs": [
                {
                    "name": "out",
                    "dtype": "fp32",
                    "dims": self.output.split(),
                    "data_transform": ["".join(f"{each} = input_data['{each}']\n" for each, *_ in parts) + self.code],
                }
            ],
            "sizes": self.sizes,
        }
        return loads_task(yaml.safe_dump(body, sort_keys=False), name)


def functions(rows: Sequence[str], *, heads: bool, swaps: bool) -> Iterator[dict[str, Any]]:
    """The library at these lengths of rows."""
    for line in (*_LIBRARY.strip().splitlines(), *(_OF_HEADS.strip().splitlines() if heads else ())):
        name, types, code = re.split(r"\s{2,}", line, maxsplit=2)
        taken, given = types.split(" -> ")
        variables = [each for each in "ab" if re.search(rf"\b{each}\b", types)]
        for chosen in itertools.product(rows, repeat=len(variables)):
            if (name == "rotate" and chosen != ("K",)) or (name.startswith("swap") and not swaps):
                continue
            known = dict(zip(variables, chosen, strict=True))
            operands = [_type(each, known) for each in taken.split()]
            label = "_".join([name, *(each.replace("*", "") for each in chosen)]).lower()
            found = {
                "name": "".join(part.title() for part in label.split("_")),
                "apply": f"return [{code}]",
                "input_dtype": operands if len(operands) > 1 else operands[0],
                "output_dtype": _type(given, known),
                "func_name": f"fn_{label}",
            }
            yield found | ({"init": ["-inf" if "max" in name else 0]} if "state" in code else {})


def _type(pattern: str, known: dict[str, str]) -> str:
    return (
        "fp32"
        if pattern == "-"
        else f"Buffer(fp32, [{', '.join(known.get(each, each) for each in pattern.split(','))}])"
    )


_QKV = """
q, k, v = h @ wq{n}.T + bq{n}, h @ wk{n}.T + bk{n}, h @ wv{n}.T + bv{n}
q, k, v = (t.view(B_value, N_value, H_value, K_value).transpose(1, 2) for t in (q, k, v))
scores = q @ k.transpose(-2, -1) * K_value ** -0.5 + mask
weights = torch.softmax(scores, -1)
mixed = (weights @ v).transpose(1, 2).reshape(B_value, N_value, H_value * K_value)
"""
_NORM = """
centered = {x} - {x}.mean(-1, keepdim=True)
rsqrt = torch.rsqrt(centered.square().mean(-1, keepdim=True) + 1e-5)
{h} = centered * rsqrt * {g} + {b}
"""
_PRE = (
    _NORM.format(x="x", h="h", g="g1_{n}", b="b1_{n}")
    + _QKV
    + "x = x + mixed @ wo{n}.T + bo{n}"
    + _NORM.format(x="x", h="h", g="g2_{n}", b="b2_{n}")
    + "x = x + {act}(h @ wu{n}.T + bu{n}) @ wd{n}.T + bd{n}\n"
)
_POST = (
    "h = x"
    + _QKV
    + "x = x + mixed @ wo{n}.T + bo{n}"
    + _NORM.format(x="x", h="x", g="g1_{n}", b="b1_{n}")
    + "x = x + {act}(x @ wu{n}.T + bu{n}) @ wd{n}.T + bd{n}"
    + _NORM.format(x="x", h="x", g="g2_{n}", b="b2_{n}")
)
_LAYER = "\n".join(
    [f"w{each}{{n}}: H*K H*K\nb{each}{{n}}: H*K" for each in "qkvo"]
    + ["wu{n}: H*K F\nbu{n}: F\nwd{n}: F H*K\nbd{n}: H*K\ng1_{n}: H*K\nb1_{n}: H*K\ng2_{n}: H*K\nb2_{n}: H*K\n"]
)
_CAUSAL = "torch.full(shape, -torch.inf).triu(1)"


def _model(layer: str, act: str, last: str) -> Kernel:
    """A transformer of two layers, with logits at its end."""
    inputs = "x: H*K N B\n" + "".join(_LAYER.format(n=n) for n in range(2))
    inputs += f"gf: H*K\nbf: H*K\nwl: H*K V\nmask: N N = {_CAUSAL}"
    code = "".join(layer.format(n=n, act=act) for n in range(2)) + last
    sizes = {"B": [3, 2], "N": [3, 5], "H": [2, 3], "K": [4, 2], "F": [7, 9], "V": [8, 10]}
    return Kernel("H*K K F V N", sizes, inputs, "V N B", code, heads=True)


_ROTARY = """
h = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * g1
q = (h @ wq.T).view(B_value, N_value, H_value, G_value, K_value)
k = (h @ wk.T).view(B_value, N_value, H_value, K_value)
v = (h @ wv.T).view(B_value, N_value, H_value, K_value)
q = q * cos[:, None, None] + torch.cat([-q[..., K_value // 2:], q[..., :K_value // 2]], -1) * sin[:, None, None]
k = k * cos[:, None] + torch.cat([-k[..., K_value // 2:], k[..., :K_value // 2]], -1) * sin[:, None]
scores = q.permute(0, 2, 3, 1, 4) @ k.permute(0, 2, 3, 1).unsqueeze(2) * K_value ** -0.5
weights = torch.softmax(scores + mask, -1)
mixed = weights @ v.transpose(1, 2).unsqueeze(2)
mixed = mixed.permute(0, 3, 1, 2, 4).reshape(B_value, N_value, H_value * G_value * K_value)
"""
_ROTARY_INPUTS = f"""
x: D N B
g1: D
wq: D G*H*K
wk: D H*K
wv: D H*K
wo: G*H*K D
cos: K N
sin: K N
mask: N N = {_CAUSAL}
"""
_GATED = "(torch.nn.functional.silu({h} @ wg.T) * ({h} @ wu.T)) @ wd.T"
_SIZES = {"B": [3, 2], "N": [3, 5], "D": [6, 7], "F": [5, 9], "K": [4, 2], "H": [2, 3], "G": [2, 2]}
KERNELS: dict[str, Kernel] = {
    "add": Kernel("M", {"N": [3, 5], "M": [4, 2]}, "a: M N\nb: M N", "M N", "a + b", whole=True),
    "gemm": Kernel(
        "K N M", {"N": [3, 5], "M": [4, 2], "K": [6, 7]}, "a: K M\nb: N K", "N M", "a @ b", whole=True
    ),
    "rms_norm": Kernel(
        "D", {"N": [3, 5], "D": [4, 7]}, "x: D N\ng: D", "D N",
        "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * g", whole=True,
    ),
    "rope": Kernel(
        "K N", {"N": [3, 5], "H": [2, 3], "K": [4, 6]}, "x: K H N\ncos: K N\nsin: K N", "K H N",
        "half = torch.cat([-x[..., K_value // 2:], x[..., :K_value // 2]], -1)\n"
        "x * cos.unsqueeze(1) + half * sin.unsqueeze(1)", whole=True, heads=True,
    ),
    "sdpa": Kernel(
        "K N", {"N": [3, 5], "B": [2, 3], "K": [4, 2]}, "q: K N B\nk: K N B\nv: K N B", "K N B",
        "torch.softmax(q @ k.transpose(-2, -1) * K_value ** -0.5, -1) @ v", whole=True, heads=True,
    ),
    "gated_mlp": Kernel(
        "D F", {"N": [3, 5], "D": [4, 7], "F": [6, 3]}, "x: D N\nwg: D F\nwu: D F\nwd: F D", "D N",
        _GATED.format(h="x"), whole=True,
    ),
    "kb_mlp": Kernel(
        "D F V", {"N": [3, 5], "D": [4, 7], "F": [6, 3], "V": [5, 8]},
        "x: D N\nw1: D F\nb1: F\nw2: F F\nb2: F\nw3: F V\nb3: V", "V N",
        "h = torch.relu(x @ w1.T + b1)\nh = torch.relu(h @ w2.T + b2)\nh @ w3.T + b3", whole=True,
    ),
    "moe_routed": Kernel(
        "D F", {"N": [3, 5], "D": [4, 7], "F": [6, 3], "E": [3, 4], "T": [2, 2]},
        "x: D N\npick: T N = integers(0, 2)\nweight: T N = torch.rand\nids: E = torch.arange(shape[0])\n"
        "wg: D F E\nwu: D F E\nwd: F D E", "D N",
        "share = ((pick.unsqueeze(-1) == ids) * weight.unsqueeze(-1)).sum(1)\n"
        "gate = torch.einsum('nd,efd->nef', x, wg)\nup = torch.einsum('nd,efd->nef', x, wu)\n"
        "hidden = gate * torch.sigmoid(gate) * up\nparts = torch.einsum('nef,edf->ned', hidden, wd)\n"
        "(parts * share.unsqueeze(-1)).sum(1)",
    ),
    "prefill_attention": Kernel(
        "D K N H*K G*H*K", {name: _SIZES[name] for name in "BNDKHG"}, _ROTARY_INPUTS, "D N B",
        _ROTARY + "mixed @ wo.T", heads=True,
    ),
    "prefill_transformer": Kernel(
        "D F K N H*K G*H*K", _SIZES, _ROTARY_INPUTS + "g2: D\nwg: D F\nwu: D F\nwd: F D", "D N B",
        _ROTARY + "x = x + mixed @ wo.T\n"
        "h = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * g2\n"
        f"x + {_GATED.format(h='h')}", heads=True,
    ),
    "gpt2": _model(_PRE, "torch.nn.functional.gelu", _NORM.format(x="x", h="h", g="gf", b="bf") + "h @ wl.T"),
    "opt": _model(_PRE, "torch.relu", _NORM.format(x="x", h="h", g="gf", b="bf") + "h @ wl.T"),
    "bart": _model(_POST, "torch.nn.functional.gelu", _NORM.format(x="x", h="h", g="gf", b="bf") + "h @ wl.T"),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table, kernel by kernel, and a summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="of processor time, for each (default: %(default)g)"
    )
    parser.add_argument("--candidates", type=int, default=4_000_000, help="for each (default: %(default)s)")
    parser.add_argument("--kernels", nargs="+", choices=[*KERNELS], default=[*KERNELS], help="default: all")
    parser.add_argument("--split", action="store_true", help="split the small ones, too")
    parser.add_argument("--write", type=Path, help="a folder for the tasks; nothing is searched then")
    args = parser.parse_args(argv)
    budget, workers, solved = SearchBudget(args.seconds, args.candidates), LocalWorkers(1), 0
    print(
        "| kernel | functions | parts | tried | candidates | seconds | found |\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    for name in args.kernels:
        task = KERNELS[name].task(name)
        if args.write:
            args.write.mkdir(parents=True, exist_ok=True)
            (args.write / f"{name}.yaml").write_text(task.statement, encoding="utf-8")
            continue
        if KERNELS[name].whole and not args.split:
            ((_, whole),) = search_all([task], budget, workers)
            cells = [
                "",
                "",
                f"{whole.candidates:,}",
                f"{whole.processor:.1f}",
                "yes" if whole.impl else f"no: {whole.reason}",
            ]
            solved += whole.impl is not None
        else:
            ((_, split),) = split_all([task], budget, workers)
            found = "yes" if split.impl else f"no: {split.reason}; {split.obstacle}"
            cells = [
                str(len(split.parts)),
                str(len(split.attempts)),
                f"{split.candidates:,}",
                f"{split.processor:.1f}",
                found,
            ]
            solved += split.impl is not None
        print(f"| {' | '.join([name, str(len(task.fns)), *cells])} |", flush=True)
    print(f"\n{solved} of {len(args.kernels)}")


if __name__ == "__main__":
    main()
