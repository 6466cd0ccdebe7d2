{# Reads all volumes with one process; the rest is shell builtins. #}
# The device mapper's tables, by name.
declare -A table=() volume=() number_of=()
dm_tables=$(dmsetup table)
while IFS= read -r line; do
  table[${line%%: *}]+=${line#*: }$'\n'
done <<<"$dm_tables"

# Puts the device mapper's name of a device, given by its numbers, into $REPLY.
mapped_name() {
  REPLY=
  if [[ -e /sys/dev/block/$1/dm/name ]]; then read -r REPLY <"/sys/dev/block/$1/dm/name"; fi
}

# Adds to volume[$2] the numbers of a volume's members in its order, also through inner volumes.
lies_on() {
  local line word
  local -a words
  while read -r line; do
    read -ra words <<<"$line"
    for word in "${words[@]:3}"; do
      [[ $word == *:* ]] || continue
      if [[ -n ${number_of[$word]-} ]]; then
        volume[$2]+="${volume[$2]:+ }${number_of[$word]}"
        continue
      fi
      mapped_name "$word"
      case $REPLY in
        *_rmeta_* | *_tmeta | *-cmeta | *-cdata) ;;  # beside the data
        '') volume[$2]+="${volume[$2]:+ }$word" ;;
        *) lies_on "$REPLY" "$2" ;;
      esac
    done
  done <<<"${table[$1]-}"
}

# The stripes and the start of data of a volume that is directly on members.
read_segments() {
  local line stripes size start
  local -a words
  volume[stripes]=
  while read -r line; do
    read -ra words <<<"$line"
    stripes=1 size='' start=${words[4]-}
    if [[ ${words[2]-} == striped ]]; then stripes=${words[3]} size=$((words[4] * 512)) start=${words[6]}; fi
    volume[data_start]=${volume[data_start]-$((start * 512))}
    if [[ -n $size ]]; then volume[stripe_size]=$size; fi
    if [[ -z ${volume[stripes]} ]]; then volume[stripes]=$stripes; fi
    if [[ ${volume[stripes]} != "$stripes" ]]; then volume[stripes]=mixed; fi
  done <<<"${table[$1]%$'\n'}"
}

read_raid() {
  local -a words=("$@")
  local count=${words[4]} devices copies=1 parity=0 at
  devices=${words[5 + count]}
  volume[type]=${words[3]%%_*}
  for ((at = 6; at < 5 + count; at++)); do
    if [[ ${words[at]} == raid10_copies ]]; then copies=${words[at + 1]}; fi
  done
  case ${volume[type]} in
    raid1) copies=$devices ;;
    raid4 | raid5) parity=1 ;;
    raid6) parity=2 ;;
  esac
  volume[stripes]=$(((devices - parity) / copies))
  if ((words[5])); then volume[stripe_size]=$((words[5] * 512)); fi
  if ((copies > 1)); then volume[mirrors]=$((copies - 1)); fi
}

# Puts all facts of a volume from the tables into the map `volume`.
read_volume() {
  local word line size=0
  local -a words
  volume=()
  [[ -n ${table[$1]-} ]] || return 0
  while read -r _ line _; do size=$((size + ${line:-0})); done <<<"${table[$1]}"
  volume[size]=$((size * 512))
  read -ra words <<<"${table[$1]}"
  volume[type]=${words[2]}
  case ${words[2]} in
    raid) read_raid "${words[@]}" ;;
    mirror)
      volume[mirrors]=$((words[5 + words[4]] - 1))
      mapped_name "${words[6 + words[4]]}"
      read_segments "$REPLY"
      ;;
    thin)
      mapped_name "${words[3]}"
      read -ra words <<<"${table[$REPLY]}"
      volume[chunk]=$((words[5] * 512))
      mapped_name "${words[4]}"
      read_segments "$REPLY"
      ;;
    cache)
      volume[chunk]=$((words[6] * 512))
      for word in "${words[@]:8:words[7]}"; do
        if [[ $word == write* || $word == passthrough ]]; then volume[cache_mode]=$word; fi
      done
      mapped_name "${words[5]}"
      read_segments "$REPLY"
      ;;
    *) read_segments "$1" ;;
  esac
}
