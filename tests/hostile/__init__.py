"""Hostile records from a seed, and an oracle that says what each of them is. Neither knows anything of the product."""
