#!/bin/sh
# Dies as a binary does that was built for another CPU.
kill -s ILL $$
