"""Builds a redistributable wheel, reports what limits where it runs, and tries it in an empty environment.

    make_wheel.py [--architectures 80,90,100,120] [--try python3.13] [--keep build/wheels]

Built by CPython 3.12 or later, the wheel runs on all of these (stable ABI); built by 3.11, on that. It has kernels
for each architecture and PTX for later ones, the C++ library, and libgomp; of NVIDIA's shared libraries it needs only
the driver's, and only for GPUs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 60_000_000
MAY_BE_NEEDED = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|gomp.*|stdc\+\+)\.so|ld-linux")
CHECKERS = ("abi3audit", "twine", "check-wheel-contents")  # these report on standard error as well
ROOT = Path(__file__).parent.parent


def run(*command: str | Path, **environment: str) -> str:
    """Run a command, and return its output; if it fails, end the script with that."""
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=os.environ | environment
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + (done.stderr if command[0] in CHECKERS else "")


def built(architectures: str, folder: Path) -> Path:
    """Build the wheel, not yet repaired by auditwheel."""
    run(
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder,
        "--config-settings=build-dir=build/wheel-{wheel_tag}", "--config-settings=cmake.define.LINKWISE_WHEEL=ON",
        "--config-settings=install.components=python;cpp", ROOT, LINKWISE_CUDA_ARCHS=architectures,
    )  # fmt: skip
    return next(folder.glob("linkwise-*.whl"))


def symbols_of(wheel: Path) -> Iterator[tuple[str, str, str]]:
    """Library, version and name of each symbol that the module takes from others."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # auditwheel brings it

    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        module = next(name for name in archive.namelist() if "/_core" in name and name.endswith(".so"))
        with open(archive.extract(module, folder), "rb") as file:
            elf = ELFFile(file)
            versions, needed = elf.get_section_by_name(".gnu.version"), elf.get_section_by_name(".gnu.version_r")
            by_index = {
                auxiliary.entry.vna_other: (library.name, auxiliary.name)
                for library, each in needed.iter_versions()
                for auxiliary in each
            }
            for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
                index = versions.get_symbol(number).entry["ndx"]
                if index in by_index:
                    yield (*by_index[index], symbol.name)
            for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED"):
                yield tag.needed, "", ""


def what_decides(wheel: Path) -> str:
    """The newest glibc version that it needs, and for which symbols; ends the script if it needs other libraries."""
    found = list(symbols_of(wheel))
    if strange := {library for library, _, _ in found if not MAY_BE_NEEDED.match(library)}:
        sys.exit(f"the module needs {', '.join(sorted(strange))}, which not every system has")

    def number(version: str) -> tuple[int, ...]:
        return tuple(map(int, version.removeprefix("GLIBC_").split(".")))

    of_glibc = [(number(version), name) for _, version, name in found if re.fullmatch(r"GLIBC_[\d.]+", version)]
    youngest = max(version for version, _ in of_glibc)
    names = sorted({name for version, name in of_glibc if version == youngest})
    others = f" and {len(names) - 3} others" if len(names) > 3 else ""
    return f"glibc {'.'.join(map(str, youngest))}, for {', '.join(names[:3])}{others}"


def tried(wheel: Path, python: str) -> str:
    """What a user's first steps print, in an empty environment of another Python and far from the sources."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", f"{folder}/venv")
        inside = f"{folder}/venv/bin/python"
        run(
            inside, "-m", "pip", "install", "-q", wheel, "scikit-learn", "cmake", "ninja", "nvidia-cuda-runtime==13.0.*"
        )
        shutil.copy(ROOT / "tests" / "programs" / "first_steps.py", folder)
        shutil.copytree(ROOT / "examples" / "engine", f"{folder}/engine")
        program = f"import os, runpy; os.chdir({folder!r}); runpy.run_path('first_steps.py', run_name='__main__')"
        return run(inside, "-I", "-c", program, PATH=f"{folder}/venv/bin:{os.environ['PATH']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architectures", default="80,90,100,120")
    parser.add_argument("--try", dest="python", action="append", default=[], help="a Python to try it with")
    parser.add_argument("--keep", type=Path, default=Path("build/wheels"))
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        raw = built(options.architectures, Path(folder))
        print(f"{raw.name}: asks for {what_decides(raw)}")
        repaired = Path(folder) / "repaired"
        run("auditwheel", "repair", "--wheel-dir", repaired, raw)
        wheel = Path(shutil.copy(next(repaired.glob("*.whl")), options.keep))
    size = wheel.stat().st_size
    print(f"{wheel}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        sys.exit(f"that is more than {MOST_BYTES / 1e6:.0f} MB")
    with zipfile.ZipFile(wheel) as archive:
        for each in sorted(archive.infolist(), key=lambda each: -each.compress_size)[:5]:
            print(f"  {each.compress_size / 1e6:5.1f} of {each.file_size / 1e6:5.1f} MB  {each.filename}")
    if "abi3" in wheel.name:
        print(run("abi3audit", "--strict", "--summary", wheel).strip())
    print(run("twine", "check", "--strict", wheel).strip())
    # W002: an empty file may be there twice. W009, W010: libraries that auditwheel puts beside the package.
    print(run("check-wheel-contents", "--ignore", "W002,W009,W010", wheel).strip())
    for python in options.python:
        print(tried(wheel, python).strip())


if __name__ == "__main__":
    main()
