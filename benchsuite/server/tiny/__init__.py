"""The tiny models: which kinds there are, and what each of their files holds."""
