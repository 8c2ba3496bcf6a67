#!/bin/sh
# Installs what the tests need and the machine lacks: a Redis or Valkey server,
# which the tests start themselves, unless RLOCK_SERVERS names some, and a C
# compiler for the race detector. It says what it does and with which servers
# the tests will run, and stops with one line where it cannot.
set -eu

servers() (
  IFS=:
  for server in ${RLOCK_SERVERS:-redis-server:valkey-server}; do
    if command -v "$server" >/dev/null; then
      echo "needs: testing with $("$server" --version)"
    elif [ -n "${RLOCK_SERVERS:-}" ]; then
      echo "needs: RLOCK_SERVERS names $server, and there is none" >&2
      exit 1
    fi
  done
)

missing=""
if [ -z "${RLOCK_SERVERS:-}" ] && ! command -v redis-server >/dev/null && ! command -v valkey-server >/dev/null; then
  missing="server"
fi
if ! command -v "${CC:-cc}" >/dev/null && ! command -v gcc >/dev/null; then
  missing="$missing compiler"
fi
if [ -z "$missing" ]; then
  servers
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
    brew:server) echo redis ;;
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
  echo "needs: missing:$missing. Install redis-server or valkey-server (or name one in RLOCK_SERVERS) and a C compiler, then run make test again." >&2
  exit 1
fi

echo "needs: missing:$missing; installing$packages with $manager"
case "$manager" in
  # The distribution would start a server of its own, on the standard port;
  # RUNLEVEL=1 keeps it from doing so.
  apt-get) $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 sh -c "apt-get update -q && apt-get install -q -y --no-install-recommends $packages" ;;
  dnf | yum) $as_root "$manager" install -y $packages ;;
  apk) $as_root apk add $packages ;;
  pacman) $as_root pacman -Sy --noconfirm $packages ;;
  brew) brew install $packages ;;
esac
servers
