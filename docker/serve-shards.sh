#!/bin/sh
# serve-shards HEAD [OPTION…]: join the Ray cluster of a head, HOST:PORT, and serve the index on its
# machines with the options of sparta serve. Ends when Ray does here, not while the head is down.
set -eu
head=$1
shift
ray start --address "$head" --num-cpus 0
sparta serve "$SPARTA_INDEX" --ray auto --host 0.0.0.0 --keys "$SPARTA_KEYS" "$@"
while grep --quiet --line-regexp raylet /proc/[0-9]*/comm 2> /dev/null; do
  sleep 10
done
