{# Shared by all scripts. Shell builtins only: a process costs 10 ms on an emulated CPU, and scripts run between trials. #}
export PATH="$PATH:/usr/sbin:/sbin"  # root by cron or plain su has neither, and mdadm is there

fail() {
  printf 'matrix: %s\n' "$*" >&2
  exit 1
}

# The name under /sys/class/block of a device or of a link to one, in $REPLY. Links are looked up once a script.
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
  # Without udev, what lies below /dev/mapper is no link; the kernel knows it by name.
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
  # They are listed once, and anew for what came later.
  search || { nodes=(/sys/class/block/*) && search; }
}
# Links are mostly asked for in the order of what they lead to: the search goes on where the last one ended.
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
  # Mostly it has been looked up, or is the next one.
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

# First line of a file, in $REPLY; of a list of choices, the chosen one.
first_line() {
  REPLY=
  read -r REPLY <"$1" || [[ -n $REPLY ]] || true
  if [[ $REPLY == *\[*\]* ]]; then
    REPLY=${REPLY#*\[}
    REPLY=${REPLY%%\]*}
  fi
}
