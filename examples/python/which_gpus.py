"""Which GPUs of a machine to sort with, and how long that would take.

python which_gpus.py dgx-a100 2e9
"""

from __future__ import annotations

import argparse

import linkwise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", nargs="?", default="dgx-a100", help="'local', or one of 'linkwise machine list'")
    parser.add_argument("rows", nargs="?", type=float, default=2e9)
    arguments = parser.parse_args()
    machine = linkwise.load_machine(arguments.machine)
    for count in range(1, machine.num_gpus + 1):
        best = linkwise.plan_sort(int(arguments.rows), "u32", machine=machine, gpus=range(count)).best
        print(f"{count} GPUs: {1e3 * best.seconds:7.1f} ms  {best}")
    print("of all:", linkwise.plan_sort(int(arguments.rows), "u32", machine=machine).best)


if __name__ == "__main__":
    main()
