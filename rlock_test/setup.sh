#!/bin/sh
# Prepares a machine for the tests, and says what it does: unpacks the servers
# (engines.sh), and has the machine's package manager install what is missing, which
# is a C compiler for the race detector, and a server where there are no packages of
# Debian to unpack. Nothing else in this project installs anything.
set -eu
cd "$(dirname "$0")"

missing=""
if sh engines.sh >/dev/null; then
  echo "setup: the servers are ready"
else
  missing="server"
fi
if ! command -v "${CC:-cc}" >/dev/null; then
  missing="$missing compiler"
fi
if [ -z "$missing" ]; then
  echo "setup: there is a C compiler; nothing to install"
  exit 0
fi

as_root=""
if [ "$(id -u)" != 0 ]; then
  as_root="sudo"
  command -v sudo >/dev/null || as_root="none"
fi

# package NEED: the name of the package in the language of the package manager.
package() {
  case "$manager:$1" in
    apt-get:server) echo redis-server ;;
    apt-get:compiler) echo gcc libc6-dev ;;
    apk:server) echo redis ;;
    apk:compiler) echo gcc musl-dev ;;
    pacman:server) echo valkey ;;
    *:server) echo redis ;;
    *:compiler) echo gcc ;;
  esac
}

for manager in apt-get dnf yum apk pacman brew none; do
  command -v "$manager" >/dev/null && break
done

packages=""
for need in $missing; do
  packages="$packages $(package "$need")"
done

if [ "$manager" = none ] || { [ "$as_root" = none ] && [ "$manager" != brew ]; }; then
  echo "setup: missing: $missing. Install redis-server or valkey-server (or name one in RLOCK_SERVERS) and a C compiler, then run make setup again." >&2
  exit 1
fi

echo "setup: missing: $missing; installing$packages with $manager"
case "$manager" in
  # The distribution would start a server of its own, on the standard port;
  # RUNLEVEL=1 keeps it from doing so.
  apt-get) $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 sh -c "apt-get update -q && apt-get install -q -y --no-install-recommends $packages" ;;
  dnf | yum) $as_root "$manager" install -y $packages ;;
  apk) $as_root apk add $packages ;;
  pacman) $as_root pacman -Sy --noconfirm $packages ;;
  brew) brew install $packages ;;
esac
echo "setup: ready"
