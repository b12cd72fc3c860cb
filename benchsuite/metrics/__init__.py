"""The catalogue of metrics, selectors over measurements, and pure derivations."""
