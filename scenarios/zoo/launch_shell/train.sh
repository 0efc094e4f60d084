#!/bin/sh
export PYTHONPATH="$PWD/lib"
cd "$(dirname "$0")" || exit 1
exec python train.py "$@"
