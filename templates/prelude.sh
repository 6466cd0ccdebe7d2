{# Shared by all scripts. Shell builtins only: a process costs 10 ms on an emulated CPU, and scripts run between trials. #}

fail() {
  printf 'matrix: %s\n' "$*" >&2
  exit 1
}

# The name under /sys/class/block of a device or of a link to one, in $REPLY. Links are looked up once a script.
declare -A kernel_names=()
look_up() {
  local node
  REPLY=${kernel_names[$1]-}
  if [[ -n $REPLY ]]; then return 0; fi
  REPLY=${1#/dev/}
  if [[ ! -L $1 && -d /sys/class/block/${REPLY//\//!} && -b $1 ]]; then
    kernel_names[$1]=${REPLY//\//!}
    REPLY=${kernel_names[$1]}
    return 0
  fi
  for node in /sys/class/block/*; do
    REPLY=${node##*/}
    if [[ /dev/${REPLY//!//} -ef $1 ]]; then
      kernel_names[$1]=$REPLY
      return 0
    fi
  done
  return 1
}
kernel_name() {
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

# What knobs were before anybody turned them: a file for each, holding its path and its value.
knob_memory=${MATRIX_STATE:-/run/matrix}/knobs

remember_knob() {
  local memory=$knob_memory/${1//\//_}
  if [[ ! -e $memory ]]; then
    [[ -d $knob_memory ]] || mkdir -p "$knob_memory"
    first_line "$1"
    printf '%s\n%s\n' "$1" "$REPLY" >"$memory"
  fi
}

restore_knob() {
  local path value
  [[ -e $1 ]] || return 0
  { read -r path && read -r value; } <"$1"
  if [[ -w $path ]]; then printf '%s\n' "$value" >"$path"; fi
}

restore_knobs() {
  local memory
  for memory in "$knob_memory"/*; do
    restore_knob "$memory"
  done
  if [[ -d $knob_memory ]]; then rm -r -- "$knob_memory"; fi
}
