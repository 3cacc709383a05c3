"""Install what building, testing or linting needs, as pyproject.toml lists it, into the running environment.

Usage: install_dependencies.py build|test|lint …
"""

import subprocess
import sys
import tomllib
from pathlib import Path


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    wanted: list[str] = []
    for group in sys.argv[1:]:
        if group == "build":
            wanted += project["build-system"]["requires"] + project["project"]["dependencies"]
            wanted += ["cmake>=3.28", "ninja"]
        else:
            wanted += project["project"]["optional-dependencies"][group]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *wanted], check=True)


if __name__ == "__main__":
    main()
