"""Join two sides of which only the keys are at hand: the rows that belong together, to take other columns by.

python join_columns.py
"""

from __future__ import annotations

import numpy as np

import linkwise


def main() -> None:
    random = np.random.default_rng(0)
    customers = random.permutation(100_000).astype(np.uint32)
    orders = random.integers(0, 200_000, 1_000_000).astype(np.uint32)  # half of them of customers that are known
    spent = random.random(len(orders))

    of_customers, of_orders = linkwise.join_indices(customers, orders)
    by_customer = np.bincount(of_customers, weights=spent[of_orders], minlength=len(customers))
    greatest = int(by_customer.argmax())
    print(
        f"{len(of_orders):,} orders of known customers; {customers[greatest]} spends most: {by_customer[greatest]:.2f}"
    )

    unknown = linkwise.join_count(orders, customers, how="anti")
    print(f"{unknown:,} orders have no customer")


if __name__ == "__main__":
    main()
