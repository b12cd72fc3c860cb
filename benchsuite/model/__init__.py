"""The nouns of benchsuite as frozen types; no I/O, no imports but `errors` and `units`."""
