"""Every fault that benchsuite is put through: each is a test, and a row of docs/reliability.md."""
