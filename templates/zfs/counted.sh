# Puts into `counted`: sectors that each device has moved; hits and misses of the ARC; requests past it.
count_zfs() {
  local file key value row path member members=({{ layer.members }})
  local -A found=()
  counted=()
  for member in "${members[@]}"; do
    kernel_name "$member"
    read -ra row <"/sys/class/block/$REPLY/stat"
    # Kernels such as 6.1 count requests to an NVMe disk that can have several paths only there.
    for file in /sys/class/block/"${REPLY%n*}"c*n"${REPLY##*n}"/stat; do
      if ((row[0] + row[4] > 0)) || [[ ! -e $file ]]; then continue; fi
      read -ra path <"$file"
      row[2]=$((row[2] + path[2])) row[6]=$((row[6] + path[6]))
    done
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
