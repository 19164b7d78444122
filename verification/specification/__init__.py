"""The specifications in `specs/`, checked by TLC, which comes by Maven and needs Java."""
