#!/bin/sh
# serve-shards HEAD [OPTION…]: join the Ray cluster of a head, HOST:PORT, and serve the index on its
# machines with the options of sparta serve. Ends when the cluster does.
set -eu
head=$1
shift
ray start --address "$head" --num-cpus 0
sparta serve "$SPARTA_INDEX" --ray auto --host 0.0.0.0 --keys "$SPARTA_KEYS" "$@"
while ray status --address "$head" > /dev/null; do
  sleep 10
done
