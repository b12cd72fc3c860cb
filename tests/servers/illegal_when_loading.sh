#!/bin/sh
# Answers --help, and dies as soon as it would load its backends.
case "$1" in
--help)
    cat <<'END'
-m,    --model FNAME                    model path to load
-c,    --ctx-size N                     size of the prompt context
-np,   --parallel N                     number of server slots
-ngl,  --n-gpu-layers N                 layers to keep on the GPU
--port PORT                             port to listen on
END
    ;;
*) kill -s ILL $$ ;;
esac
