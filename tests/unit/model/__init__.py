"""The rules, without a store under them."""
