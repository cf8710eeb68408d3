#!/bin/sh
# Lock the packages of the images to the newest versions that pyproject.toml allows, with hashes.
set -eu
cd "$(dirname "$0")"
lock() {
  uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-header --no-annotate "$@"
}
lock lucene.in --no-deps --output-file lucene.txt
lock ../../pyproject.toml --overrides serving-overrides.txt --output-file serving.txt
full="../../pyproject.toml --overrides full-overrides.txt --extra full"
lock $full --output-file full.txt
lock $full --extra ray --constraints full.txt --output-file cluster.txt
