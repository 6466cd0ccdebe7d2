{# Shared by all scripts. Shell builtins only: a process costs 10 ms on an emulated CPU, and scripts run between trials. #}
export PATH="$PATH:/usr/sbin:/sbin"  # root by cron or plain su has neither, and mdadm is there

fail() {
  printf 'matrix: %s\n' "$*" >&2
  exit 1
}

# Puts the name under /sys/class/block of a device, or of a link to one, into $REPLY. A script looks up each link once.
declare -A kernel_names=()
nodes=()
searched=0
look_up() {
  local node name=$1
  REPLY=${1#/dev/}
  if [[ ! -L $1 && -d /sys/class/block/${REPLY//\//!} && -b $1 ]]; then
    kernel_names[$1]=${REPLY//\//!}
    REPLY=${kernel_names[$1]}
    return 0
  fi
  # Without udev, files below /dev/mapper are no links; the kernel has their names.
  if [[ $1 == /dev/mapper/* ]]; then
    for node in /sys/class/block/dm-*/dm/name; do
      if [[ -e $node ]] && read -r REPLY <"$node" && [[ $REPLY == "${1#/dev/mapper/}" ]]; then
        node=${node%/dm/name}
        REPLY=${node##*/}
        kernel_names[$1]=$REPLY
        return 0
      fi
    done
  fi
  # They are listed once, and again for later devices.
  search || { nodes=(/sys/class/block/*) && search; }
}
# Links are mostly looked up in the order of their devices, so the search starts after the last match.
search() {
{% raw %}
  local left=${#nodes[@]}
  while ((left-- > 0)); do
    searched=$((searched % ${#nodes[@]}))
    REPLY=${nodes[searched++]##*/}
{% endraw %}
    if [[ /dev/${REPLY//!//} -ef $name ]]; then
      kernel_names[$name]=$REPLY
      return 0
    fi
  done
  return 1
}
kernel_name() {
  # The common cases: it is known, or it is the next one.
  REPLY=${kernel_names[$1]-}
  if [[ -n $REPLY ]]; then return 0; fi
  REPLY=${nodes[searched]-}
  REPLY=${REPLY##*/}
  if [[ -n $REPLY && /dev/${REPLY//!//} -ef $1 ]]; then
    kernel_names[$1]=$REPLY
    searched=$((searched + 1))
    return 0
  fi
  look_up "$1" || fail "$1 is not a block device of this kernel"
}

# Puts the first line of a file into $REPLY; of a list of choices, the active one.
first_line() {
  REPLY=
  read -r REPLY <"$1" || [[ -n $REPLY ]] || true
  if [[ $REPLY == *\[*\]* ]]; then
    REPLY=${REPLY#*\[}
    REPLY=${REPLY%%\]*}
  fi
}
