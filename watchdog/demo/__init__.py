"""A private supervisord with four sample workers, the real daemon beside it, and a look at what the daemon does.

May start and end processes of its own, and write into its own folder; may not touch any other supervisord, configuration or worker.
"""
