"""`python -m tests.bench`: what the daemon costs on a real supervisord with many programs. Prints, asserts nothing."""
