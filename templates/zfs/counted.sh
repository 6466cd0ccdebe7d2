# Puts into `counted`: sectors that each device has moved; hits and misses of the ARC; requests past it.
count_zfs() {
  local file key value row member members=({{ layer.members }})
  local -A found=()
  counted=()
  for member in "${members[@]}"; do
    kernel_name "$member"
    read -ra row <"/sys/class/block/$REPLY/stat"
    counted+=($((row[2] + row[6])))
  done
  for file in /proc/spl/kstat/zfs/arcstats /proc/spl/kstat/zfs/{{ layer.pool }}/iostats; do
    if [[ ! -e $file ]]; then continue; fi
    while read -r key _ value; do
      if [[ -n $key ]]; then found[$key]=$value; fi  # some pools have an empty line
    done <"$file"
  done
  for key in hits misses direct_read_count direct_write_count; do counted+=("${found[$key]:-0}"); done
}
