#!/bin/sh
# A wrapper around a server that does not replace itself with it: two processes in one group.
# WRAPPED_SERVER holds the program and its first arguments, separated by blanks.
$WRAPPED_SERVER "$@"
exit $?
