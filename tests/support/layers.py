"""Layers for `benchmarks.modules`: twenty of `transformers`, with random weights, and six of `torch.nn`.

Each is a builder, as `python -m pipeline.task tests/support/layers.py:NAME` takes it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

B_, N_, D_, F_, H_, K_, G_, V_ = (2, 4), (3, 5), (6, 10), (11, 7), (2, 3), (4, 6), (2, 3), (13, 17)


def _of(model: str) -> Any:
    return import_module(f"transformers.models.{model}.modeling_{model}")


def _rotary(b: Any, n: Any, k: Any) -> tuple[Tensor, Tensor]:
    return torch.randn(b, n, k), torch.randn(b, n, k)


def _llama(name: str, **sizes: Any) -> Any:
    return _of("llama").LlamaConfig(num_attention_heads=1, **sizes)


# ---- torch.nn


def nn_mlp(B: Any = B_, N: Any = N_, D: Any = D_, F: Any = F_) -> Any:
    return nn.Sequential(nn.Linear(D, F), nn.GELU(), nn.Linear(F, D)), torch.randn(B, N, D)


def nn_layer_norm(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    return nn.LayerNorm(D), torch.randn(B, N, D)


def nn_rms_norm(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    return nn.RMSNorm(D), torch.randn(B, N, D)


def nn_embedding(B: Any = B_, N: Any = N_, D: Any = D_, V: Any = V_) -> Any:
    return nn.Embedding(V, D), torch.randint(0, V, (B, N))


def nn_attention(B: Any = B_, N: Any = N_, H: Any = H_, K: Any = K_) -> Any:
    x = torch.randn(B, N, H * K)
    return nn.MultiheadAttention(H * K, H, batch_first=True), x, x, x, {"need_weights": False}


def nn_encoder_layer(B: Any = B_, N: Any = N_, H: Any = H_, K: Any = K_, F: Any = F_) -> Any:
    return nn.TransformerEncoderLayer(H * K, H, F, batch_first=True), torch.randn(B, N, H * K)


# ---- transformers: parts


def llama_norm(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    return _of("llama").LlamaRMSNorm(D), torch.randn(B, N, D)


def llama_mlp(B: Any = B_, N: Any = N_, D: Any = D_, F: Any = F_) -> Any:
    return _of("llama").LlamaMLP(_llama("", hidden_size=D, intermediate_size=F)), torch.randn(B, N, D)


def gpt2_mlp(B: Any = B_, N: Any = N_, D: Any = D_, F: Any = F_) -> Any:
    m = _of("gpt2")
    return m.GPT2MLP(F, m.GPT2Config(n_embd=D, n_head=1)), torch.randn(B, N, D)


def bert_output(B: Any = B_, N: Any = N_, D: Any = D_, F: Any = F_) -> Any:
    m = _of("bert")
    config = m.BertConfig(hidden_size=D, num_attention_heads=1, intermediate_size=F)
    return m.BertOutput(config), torch.randn(B, N, F), torch.randn(B, N, D)


def bert_pooler(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    m = _of("bert")
    return m.BertPooler(m.BertConfig(hidden_size=D, num_attention_heads=1)), torch.randn(B, N, D)


def bert_embeddings(B: Any = B_, N: Any = N_, D: Any = D_, V: Any = V_) -> Any:
    m = _of("bert")
    config = m.BertConfig(hidden_size=D, num_attention_heads=1, vocab_size=V, max_position_embeddings=2 * N)
    return m.BertEmbeddings(config), torch.randint(0, V, (B, N))


def t5_norm(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    return _of("t5").T5LayerNorm(D), torch.randn(B, N, D)


def t5_feed_forward(B: Any = B_, N: Any = N_, D: Any = D_, F: Any = F_) -> Any:
    m = _of("t5")
    return m.T5LayerFF(m.T5Config(d_model=D, d_ff=F, feed_forward_proj="gated-gelu")), torch.randn(B, N, D)


def gemma_norm(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    return _of("gemma").GemmaRMSNorm(D), torch.randn(B, N, D)


def gemma_mlp(B: Any = B_, N: Any = N_, D: Any = D_, F: Any = F_) -> Any:
    m = _of("gemma")
    config = m.GemmaConfig(hidden_size=D, intermediate_size=F, num_attention_heads=1, num_key_value_heads=1)
    return m.GemmaMLP(config), torch.randn(B, N, D)


def phi_mlp(B: Any = B_, N: Any = N_, D: Any = D_, F: Any = F_) -> Any:
    m = _of("phi")
    return m.PhiMLP(m.PhiConfig(hidden_size=D, intermediate_size=F, num_attention_heads=1)), torch.randn(B, N, D)


def distilbert_ffn(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    m = _of("distilbert")
    config = m.DistilBertConfig(dim=D, hidden_dim=2 * D, n_heads=1)
    return m.FFN(config), torch.randn(B, N, D)


def bloom_mlp(B: Any = B_, N: Any = N_, D: Any = D_) -> Any:
    m = _of("bloom")
    return m.BloomMLP(m.BloomConfig(hidden_size=D, n_head=1)), torch.randn(B, N, D), torch.randn(B, N, D)


def neox_mlp(B: Any = B_, N: Any = N_, D: Any = D_, F: Any = F_) -> Any:
    m = _of("gpt_neox")
    config = m.GPTNeoXConfig(hidden_size=D, intermediate_size=F, num_attention_heads=1)
    return m.GPTNeoXMLP(config), torch.randn(B, N, D)


# ---- transformers: attention and whole layers


def gpt2_block(B: Any = B_, N: Any = N_, H: Any = H_, K: Any = K_, F: Any = F_) -> Any:
    m = _of("gpt2")
    return m.GPT2Block(m.GPT2Config(n_embd=H * K, n_head=H, n_inner=F)), torch.randn(B, N, H * K)


def bert_layer(B: Any = B_, N: Any = N_, H: Any = H_, K: Any = K_, F: Any = F_) -> Any:
    m = _of("bert")
    config = m.BertConfig(hidden_size=H * K, num_attention_heads=H, intermediate_size=F)
    return m.BertLayer(config), torch.randn(B, N, H * K)


def llama_attention(B: Any = B_, N: Any = N_, G: Any = G_, K: Any = K_) -> Any:
    config = _of("llama").LlamaConfig(
        hidden_size=2 * G * K, num_attention_heads=2 * G, num_key_value_heads=G, head_dim=K
    )
    config._attn_implementation = "eager"
    given = {"position_embeddings": _rotary(B, N, K), "attention_mask": None}
    return _of("llama").LlamaAttention(config, 0), torch.randn(B, N, 2 * G * K), given


def llama_layer(B: Any = B_, N: Any = N_, G: Any = G_, K: Any = K_, F: Any = F_) -> Any:
    config = _of("llama").LlamaConfig(
        hidden_size=2 * G * K, num_attention_heads=2 * G, num_key_value_heads=G, head_dim=K, intermediate_size=F
    )
    return (
        _of("llama").LlamaDecoderLayer(config, 0),
        torch.randn(B, N, 2 * G * K),
        {"position_embeddings": _rotary(B, N, K)},
    )


def qwen3_attention(B: Any = B_, N: Any = N_, H: Any = H_, K: Any = K_) -> Any:
    m = _of("qwen3")
    config = m.Qwen3Config(hidden_size=H * K, num_attention_heads=H, num_key_value_heads=H, head_dim=K)
    config._attn_implementation = "eager"
    given = {"position_embeddings": _rotary(B, N, K), "attention_mask": None}
    return m.Qwen3Attention(config, 0), torch.randn(B, N, H * K), given


def whisper_encoder_layer(B: Any = B_, N: Any = N_, H: Any = H_, K: Any = K_, F: Any = F_) -> Any:
    m = _of("whisper")
    config = m.WhisperConfig(d_model=H * K, encoder_attention_heads=H, encoder_ffn_dim=F)
    return m.WhisperEncoderLayer(config), torch.randn(B, N, H * K), None


LAYERS = {name: build for name, build in dict(globals()).items() if callable(build) and not name.startswith("_")}
LAYERS = {name: build for name, build in LAYERS.items() if getattr(build, "__module__", "") == __name__}
