{# `under_test`: devices, or one directory. A virtual machine of this program has the bell and is a limit itself; an
   environment cannot make this file. #}
# Runs a command that can write only in this folder and on what is under test. The rest of the host is read-only below
# /host, or not there: other devices, processes and mounts. Call it in a subshell, which becomes the command.
under_test=({{ under_test }})
# Bit 21 is CAP_SYS_ADMIN. Root lacks it only in a container of the user, which is then the limit.
may_mount() {
  local key=none value=0
  while [[ $key != CapEff: ]]; do read -r key value; done </proc/self/status
  ((16#$value >> 21 & 1))
}
confined() {
  if [[ -c /dev/matrix-bell ]]; then exec "$@"; fi
  unset MATRIX_BELL
  if ! may_mount; then exec "$@"; fi
{% raw %}
  exec unshare --mount -- bash -c "$(declare -f enclose); enclose \"\$@\"" confined "${#under_test[@]}" "${under_test[@]}" "$@"
}
# count, what is under test, command: makes a new root, in a mount namespace of its own.
enclose() {
  set -euo pipefail
  local new=/proc/fs count=$1 at="" one program status mounts folders links=() parents=(/usr /usr/local /opt /nix)
  local writable=(/dev/null /dev/urandom "${@:2:count}")
  shift "$((count + 1))"
  program=$(type -P "$1")
  if [[ $program != /* ]]; then program=$PWD/$program; fi
  # fio refuses mounted devices, and its library for NUMA reads the processors that it may use.
  mounts=$(</proc/self/mounts)
  status=$(</proc/self/status)
  mount -t tmpfs -o mode=755,size=4m matrix "$new"
  folders=("$new"/{host,proc/self,run,sys,tmp,trial})
  for one in "${writable[@]}"; do
    if [[ ! -d $one ]]; then one=${one%/*}; fi
    folders+=("$new$one")
  done
  mkdir -p -- "${folders[@]}"
  printf '%s\n' "$mounts" >"$new/proc/self/mounts"
  printf '%s\n' "$status" >"$new/proc/self/status"
  mount -o bind,ro / "$new/host"
  [[ ! -w $new/host ]] || exit 1
  mount -o bind,ro /sys "$new/sys"
  mount -o bind . "$new/trial"
  for one in "${writable[@]}"; do
    [[ -d $one ]] || : >"$new$one"
    mount -o bind "$one" "$new$one"
  done
  for one in "$new"/host/*; do
    one=${one##*/}
    if [[ ! -e $new/$one ]]; then links+=("host/$one"); fi
  done
  ln -s -- "${links[@]}" "$new"
  # A mount inside the root, with this program or its libraries.
  IFS=/ read -ra folders <<<"${program%/*}"
  for one in "${folders[@]}"; do
    if [[ -n $one ]]; then
      at+=/$one
      parents+=("$at")
    fi
  done
  for at in "${parents[@]}"; do
    if [[ -d $new/host$at && ! $at -ef $new/host$at ]]; then mount -o bind,ro "$at" "$new/host$at"; fi
  done
  mount -o remount,bind,ro matrix "$new"
  exec chroot "$new" bash -c "cd /trial && exec \"\$@\"" confined "$@"
}
{% endraw %}
