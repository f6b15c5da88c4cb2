"""TT-Lang, Tenstorrent's language for kernels, as a language that an agent learns; see `docs/ttlang.md`.

Programs are checked by an allow-list over their syntax tree, and then run by the functional simulator `tt-lang-sim`.
"""
