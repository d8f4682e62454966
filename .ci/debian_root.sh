# To be sourced: bare roots of Debian, made with debootstrap. `skip` and `fail`, which end the
# program, `scratch`, a folder, and `root`, one in it, belong to who sources this.

# twice COMMAND...: networks fail now and then.
twice() { "$@" || { sleep 10 && "$@"; }; }
last_line() { tail -n 1 "$scratch/log" | cut -c1-200; }
as_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }

# What is mounted goes first: never below a mount that is still there.
remove_root() {
  local process
  [[ -n "${root:-}" ]] || return 0
  for process in /proc/[0-9]*; do  # Bazel's server, say
    if [[ "$(readlink "$process/root" 2>/dev/null)" == "$root" ]]; then
      kill -9 "${process#/proc/}" || true
    fi
  done
  sleep 0.2
  umount "$root/proc" "$root/dev/pts" "$root/dev" "$root/root/.cache/brim-bazel" 2>/dev/null || true
  if ! grep -qs " $root/" /proc/mounts; then rm -rf "$root"; fi
}
# For when the program ends.
remove_scratch() {
  remove_root
  if ! grep -qs " $scratch/" /proc/mounts; then rm -rf "$scratch"; fi
}

# make_root RELEASE: "bookworm" or "trixie", in $root. Skips where this machine cannot.
make_root() {
  local mirror
  (( $(id -u) == 0 )) || skip "making a root needs root's rights"
  if ! command -v debootstrap >/dev/null; then
    DEBIAN_FRONTEND=noninteractive twice apt-get -qq --yes install --no-install-recommends \
      debootstrap >"$scratch/log" 2>&1 || skip "debootstrap cannot be installed: $(last_line)"
  fi
  mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
    2>/dev/null | grep -v security | head -n 1 || true)"
  twice try_root "$1" "${mirror:-http://deb.debian.org/debian}" ||
    skip "no root can be made: $(last_line)"
  as_root true 2>"$scratch/log" || skip "chroot does not work: $(last_line)"
  mount -t proc proc "$root/proc" 2>/dev/null || true  # for libgomp's count of processors
  mount --bind /dev "$root/dev" 2>/dev/null || true
  mount --bind /dev/pts "$root/dev/pts" 2>/dev/null || true  # for programs on a terminal
  cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
  cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/" 2>/dev/null || true  # proxies
}

try_root() {
  rm -rf "$root"
  debootstrap --variant=minbase "$1" "$root" "$2" >"$scratch/log" 2>&1
}
