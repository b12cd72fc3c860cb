#!/bin/sh
# A program that is no llama-server.
echo "usage: not_a_server [FILE]"
