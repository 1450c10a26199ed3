"""Renders what is known. Decides nothing; may not import look, collect or act."""
