"""Situations that are not run here, with the reason."""

NOT_RUN: dict[str, str] = {}
