#!/bin/sh
# confined.sh ROOT DATA PHOTOS COMMAND…: run a command in an image's root file system as a container
# with docker/compose.yaml's restrictions would: user 10001 without capabilities, the root file
# system read-only, /tmp in memory and not executable. Needs root.
set -eu
exec unshare --mount sh -ec '
  root=$1 data=$2 photos=$3
  shift 3
  mkdir -p "$root/photos"
  mount --bind "$root" "$root"
  mount -o remount,ro,bind "$root"
  mount -t tmpfs -o noexec,nosuid,nodev tmpfs "$root/tmp"
  mount --bind "$data" "$root/data"
  mount --bind -o ro "$photos" "$root/photos"
  mount -t proc proc "$root/proc"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  mkdir -m 1777 "$root/dev/shm"
  for device in null urandom zero; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  # The image has no setpriv: chroot, which loses its capabilities with its user, sets the user.
  exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid --inh-caps=-all \
    chroot --userspec=10001:10001 --groups= "$root" "$@"
' sh "$@"
