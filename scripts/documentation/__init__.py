"""The generated parts of the documentation: `python -m scripts.documentation` writes them, tests check them.

pages        every generated file by its path, and how it is compared with the one on disk
cookbook     a page and a picture of the graph for each recipe in `docs/cookbook`
primitives   a page for each primitive, with pictures of small streams from the token semantics
streams      SVG pictures of streams of tokens
tutorial     a page whose commands are run, and whose shown outputs are theirs
hooks        what MkDocs calls while it builds the site
offline      checks that a built site needs no network
"""
