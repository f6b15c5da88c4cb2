"""What users may rely on does not change unnoticed."""

from scripts.public_api import FILE, public_api


def test_the_public_api_is_the_one_on_record() -> None:
    """After a change on purpose: `python -m scripts.public_api`, and a line in CHANGELOG.md."""
    recorded, found = FILE.read_text(encoding="utf-8").splitlines(), public_api().splitlines()
    gone = [f"- {line}" for line in recorded if line not in found]
    new = [f"+ {line}" for line in found if line not in recorded]
    assert not gone + new, "\n".join(["run python -m scripts.public_api, and say it in CHANGELOG.md:", *gone, *new])
    assert recorded == found
