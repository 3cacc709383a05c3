"""Sort files by columns, as many as a pattern names, into one file.

python sort_files.py 'orders/*.parquet' sorted.parquet customer
"""

from __future__ import annotations

import argparse

import linkwise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a file, a directory, a pattern or a URI")
    parser.add_argument("target")
    parser.add_argument("key", nargs="+", help="columns, the first one first")
    arguments = parser.parse_args()
    try:
        report = linkwise.sort_file(arguments.source, arguments.target, by=arguments.key)
    except linkwise.Error as error:  # one line that says what to do; the target is as it was
        parser.exit(1, f"{error}\n")
    print(f"{report.rows:,} rows in {report.seconds:.2f} s on {report.machine}")


if __name__ == "__main__":
    main()
