#!/bin/sh
# standin.sh NAME PYTHON_PREFIX: make a stand-in for python:3.11-slim-trixie where no registry of
# images is reached: Debian by debootstrap slimmed as Debian's slim
# images are, with the Python of a prefix in /usr/local, and this machine's certificates.
set -eu
name=$1 prefix=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase \
  --include=ca-certificates,libbz2-1.0,libffi8,libncursesw6,libreadline8t64,libsqlite3-0,libssl3t64,netbase \
  trixie "$root" > /dev/null
tar -C "$prefix" --create --exclude=__pycache__ --exclude='site-packages/*' --exclude='*.a' \
  --exclude='python3.11/test' --exclude='*tkinter*' --exclude=idlelib \
  bin/python3.11 include/python3.11 lib/libpython3.so $(cd "$prefix" && ls -d lib/libpython3.11.so* lib/python3.11) \
  | tar -C "$root/usr/local" --extract
# Without symbols, as Docker's own Python is built.
strip --strip-unneeded "$root"/usr/local/bin/python3.11 "$root"/usr/local/lib/libpython3.11.so.* \
  "$root"/usr/local/lib/python3.11/lib-dynload/*.so
ln -s python3.11 "$root/usr/local/bin/python3"
ln -s python3 "$root/usr/local/bin/python"
chroot "$root" ldconfig
chroot "$root" python3 -m ensurepip > /dev/null
ln -s pip3 "$root/usr/local/bin/pip"
find "$root/usr/local" -name __pycache__ -prune -exec rm -r {} +
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/*
rm -rf "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/*
install -D /etc/ssl/certs/ca-certificates.crt "$root/standin/ca.crt"
container=$(buildah from scratch)
buildah add --quiet "$container" "$root" / > /dev/null
buildah config --cmd python3 --env PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  --env PIP_CERT=/standin/ca.crt --env SSL_CERT_FILE=/standin/ca.crt "$container"
buildah commit --quiet --rm "$container" "$name"
