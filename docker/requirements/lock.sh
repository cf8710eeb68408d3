#!/bin/sh
# Lock the packages of the images to the newest versions that pyproject.toml allows, with hashes.
set -eu
cd "$(dirname "$0")"
lock() {
  uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-header --no-annotate "$@"
}
lock lucene.in --no-deps --output-file lucene.txt
lock serving.in --overrides serving-overrides.txt --output-file serving.txt
full="../../pyproject.toml --overrides full-overrides.txt --extra dense --extra heic --extra nltk"
lock $full --output-file encode.txt
lock $full --extra train --constraints encode.txt --output-file gpu.txt
lock $full --extra ray --constraints encode.txt --output-file cluster.txt
