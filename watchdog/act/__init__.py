"""Changes the world: stop, end, start, tell. May not import look, collect or show; decides nothing."""
