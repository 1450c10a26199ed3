"""The frozen types that cross rooms, and nothing else: no behaviour beyond what a type says of itself, no I/O, no clock."""
