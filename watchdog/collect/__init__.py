"""Gathers the evidence of one incident, each piece with a deadline of its own. May not import look, act or show."""
