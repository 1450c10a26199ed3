"""Reads the world and changes nothing: heartbeats, processes, host. May not import collect, act or show."""
