"""Kinds of comparison, gates and the verdict; pure."""
