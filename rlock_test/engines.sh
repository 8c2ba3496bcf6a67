#!/bin/sh
# engines.sh [NAME...] unpacks the servers that the tests run against, and prints their
# paths as a list for RLOCK_SERVERS. The names are
#
#   redis7   Redis 7.0, the oldest that is supported; the tests take it by default
#   redis8   Redis 8
#   valkey8  Valkey 8
#
# and without one it is all of them. For the tests of metrics there are two more:
#
#   prometheus, promtool   Prometheus 2.42 of Debian bookworm, without the pages that it shows
#
# They come from Debian's packages and are unpacked
# into a directory in the user's cache, or the one that RLOCK_ENGINES names: nothing of
# the system changes, and any user of Debian can do it. Where that is not possible, the
# list is one server that is installed; with RLOCK_ENGINES_REQUIRED=1 it is an error.
# Where RLOCK_SERVERS is set, it is the list.
set -eu

dir=${RLOCK_ENGINES:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/rlock-engines}
required=${RLOCK_ENGINES_REQUIRED:-}
say() { echo "engines: $*" >&2; }

# package NAME: the directory it is unpacked into, whose name begins with the release of Debian
# that has the server; the server; and the program.
package() {
  case "$1" in
    redis7) release=bookworm server=redis program=redis-server ;;
    redis8) release=trixie server=redis program=redis-server ;;
    valkey8) release=trixie server=valkey program=valkey-server ;;
    prometheus | promtool) release=bookworm-prometheus server=prometheus program=$1 ;;
    *)
      say "there is no engine $1, only redis7, redis8 and valkey8, and prometheus and promtool"
      exit 2
      ;;
  esac
}

# origin RELEASE: where the machine gets its Debian packages from, for RELEASE.
origin() {
  key=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=$(sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\) .*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null | grep '/debian/*$' | head -n 1)
  [ -n "$mirror" ] && [ -r "$key" ] && echo "deb [signed-by=$key] $mirror $1 main"
}

# unpack RELEASE: the servers of a Debian release and the libraries they need. It works
# in a directory of its own, as another run may do the same now.
unpack() {
  say "unpacking the servers of Debian $1 into $dir"
  work=$(mktemp -d "$dir/work.XXXXXX")
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/root"
  : >"$work/status"
  if origin "${1%%-*}" >"$work/sources.list" && download "$1"; then
    for archive in "$work"/cache/archives/*.deb; do
      dpkg-deb --extract "$archive" "$work/root"
    done
    [ -e "$dir/$1" ] || mv "$work/root" "$dir/$1"
  else
    : >"$dir/$1.failed"
  fi
  rm -rf "$work"
  [ -e "$dir/$1" ]
}

# download RELEASE: the packages, into the working directory.
download() {
  cat >"$work/apt.conf" <<CONF
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$work/lists/";
Dir::State::status "$work/status";
Dir::Cache "$work/cache/";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
CONF
  case "$1" in
    trixie) packages="redis-server valkey-server" alone="" ;;
    bookworm-prometheus) packages=libc6 alone=prometheus ;; # the libraries that it depends on are for its pages
    *) packages=redis-server alone="" ;;
  esac
  APT_CONFIG=$work/apt.conf apt-get -qq update >"$work/log" 2>&1 &&
    APT_CONFIG=$work/apt.conf apt-get -qq --yes --download-only install $packages >>"$work/log" 2>&1 &&
    { [ -z "$alone" ] || (cd "$work/cache/archives" && APT_CONFIG=$work/apt.conf apt-get -qq download $alone) >>"$work/log" 2>&1; } && return 0
  tail -n 3 "$work/log" >&2
  return 1
}

# wrap NAME RELEASE PROGRAM: a program that runs the server with its own libraries.
wrap() {
  root=$dir/$2
  binary=$root/usr/bin/$3
  loader=$(find "$root/lib" "$root/lib64" "$root/usr/lib" -name 'ld-linux*.so.*' 2>/dev/null | head -n 1)
  libraries=$(find "$root/lib" "$root/usr/lib" -maxdepth 1 -name '*-linux-gnu*' 2>/dev/null | tr '\n' ':')
  new=$(mktemp "$dir/new.XXXXXX")
  printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$loader" "$libraries" "$binary" >"$new"
  chmod +x "$new"
  if "$new" --version >/dev/null; then
    mv "$new" "$dir/$1"
  else
    rm -f "$new"
    return 1
  fi
}

# have NAME RELEASE PROGRAM: makes the server ready, unless it is.
have() {
  [ -x "$dir/$1" ] && "$dir/$1" --version >/dev/null 2>&1 && return 0
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  if ! [ -e "$dir/$2/usr/bin/$3" ]; then
    # What could not be had is not asked for again within the hour, unless it must be.
    [ "$required" = 1 ] || [ -z "$(find "$dir" -maxdepth 1 -name "$2.failed" -mmin -60)" ] || return 1
    unpack "$2" || return 1
  fi
  wrap "$1" "$2" "$3"
}

if [ -n "${RLOCK_SERVERS:-}" ]; then
  echo "$RLOCK_SERVERS"
  exit 0
fi

[ $# != 0 ] || set -- redis7 redis8 valkey8
if ! mkdir -p "$dir"; then
  say "no place for them; name one in RLOCK_ENGINES"
  exit 1
fi
list=""
for name in "$@"; do
  package "$name"
  if have "$name" "$release" "$program"; then
    list=$list${list:+:}$dir/$name
  elif [ "$required" = 1 ]; then
    say "$server of Debian ${release%%-*} is needed and not to be had here"
    exit 1
  fi
done
if [ -z "$list" ]; then
  if [ "$server" = prometheus ]; then
    say "no packages of Debian here, so there is no Prometheus"
    exit 1
  fi
  for program in redis-server valkey-server; do
    list=$(command -v "$program" || true)
    [ -z "$list" ] || break
  done
  [ -n "$list" ] || { say "no packages of Debian here, and no redis-server or valkey-server: make setup installs one"; exit 1; }
  say "no packages of Debian here; testing with $list"
fi
echo "$list"
