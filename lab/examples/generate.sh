#!/bin/sh
# Makes the example traces of this folder again, byte for byte: generate.sh [FOLDER]
set -eu
to=${1:-$(dirname "$0")}
charkha trace generate transformer --layers 4 --hidden 512 --sequence 1024 --batch 8 --micro-batches 4 --vocabulary 4096 \
  --tensor 2 --pipeline 2 --data 2 --tflops 2 --memory-gbytes 100 --out "$to/transformer-8r" --force
