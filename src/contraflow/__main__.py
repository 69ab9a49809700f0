"""`python -m contraflow` says what is installed and what it can use."""

from contraflow.about import show_config

print(show_config())
