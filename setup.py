"""What pyproject.toml cannot say: the long description, README.md as a package page can show it."""

import re
from pathlib import Path

from setuptools import setup

# Where the repository's files can be read, as "https://HOST/OWNER/lookhear/blob/main". There is no
# such address yet: until it stands here, a link to a file of ours becomes its text (every file is
# in the source distribution), and a picture is left out, because a link to nowhere is worse.
REPOSITORY = ""
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?://|#)(?P<path>[^)\s]+)\)")


def package_page(readme: str, repository: str = REPOSITORY) -> str:
    """README.md with absolute links, or without relative ones if there is no address."""

    def absolute(link: re.Match[str]) -> str:
        if repository:
            raw = "?raw=true" if link["picture"] else ""
            return f"{link['picture']}[{link['text']}]({repository}/{link['path']}{raw})"
        return "" if link["picture"] else link["text"]

    return LINK.sub(absolute, readme)


if __name__ == "__main__":
    setup(
        long_description=package_page(Path("README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
    )
