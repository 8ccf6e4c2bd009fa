"""Filters and scores. A new one is one module here and one test file; `registry` finds it."""
