#!/bin/sh
# index-photos [OPTION…]: index the photos in /photos with the options of sparta index. The first
# time it creates two keys as well: one for the user, which is printed, and one for Prometheus.
set -eu
sparta index /photos --out "$SPARTA_INDEX" "$@"
if [ ! -e "$SPARTA_KEYS" ]; then
  sparta keys create prometheus --scope metrics > /data/prometheus.key 2> /dev/null
  sparta keys create first --scope admin
fi
