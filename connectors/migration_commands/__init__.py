"""Commands with which people ask for migrations and drains, and look at them."""
