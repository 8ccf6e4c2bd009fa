"""How it gets in and out: producers, consumers, brokers and commands. Imports `schemas` only."""
