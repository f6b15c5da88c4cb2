"""`python -m scripts.documentation`: writes all generated pages and pictures that are not current."""

from __future__ import annotations

from scripts.documentation.pages import outdated


def main() -> None:
    """Writes the files, and prints the path of each."""
    for path, content in outdated():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
