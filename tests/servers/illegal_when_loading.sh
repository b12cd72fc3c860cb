#!/bin/sh
# Answers --help, and dies as soon as it would load its backends.
case "$1" in
--help) echo "--model FNAME --ctx-size N --parallel N --port PORT" ;;
*) kill -s ILL $$ ;;
esac
