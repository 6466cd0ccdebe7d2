
{% include 'zfs/counted.sh' %}
before=()
if [[ -e {{ layer.cachefile }}.counted ]]; then
  read -ra before <{{ layer.cachefile }}.counted
  rm -- {{ layer.cachefile }}.counted
fi
count_zfs
for number in "${!counted[@]}"; do counted[number]=$((counted[number] - ${before[number]:-0})); done
{% if not faults %}
first_line /proc/spl/kstat/zfs/{{ layer.pool }}/state
[[ $REPLY == ONLINE ]] ||
  fail "not as declared: zfs.state wanted ONLINE until the end of the measurement, kernel says $REPLY"
{% endif %}
moved=
each=()
total=0
# name number ...: adds what these devices have moved, and puts it into $sectors
add_moved() {
  local number
  sectors=0
  for number in "${@:2}"; do sectors=$((sectors + counted[number])); done
  moved+="$1 $((sectors / 2)) KiB, "
}
{% for vdev in layer.vdevs %}
add_moved {{ vdev.use or vdev.kind or 'device' }} {{ vdev.members }}
{% if not vdev.use and not faults %}
each+=("$sectors")
total=$((total + sectors))
{% endif %}
{% endfor %}
{% if not faults %}
# ZFS fills vdevs in turns of some MiB. So a little data may be on one of them, and in the ARC.
if ((total >= {{ 32768 * (layer.vdevs | rejectattr('use') | list | length) }})); then
{% for vdev in layer.vdevs if not vdev.use %}
  ((each[{{ loop.index0 }}])) || fail "not as declared: zfs.vdevs:" {{ vdev.kind or 'the device' }} \
    "of devices" {{ vdev.members }} "moved no bytes during the measurement, and the pool $((total / 2048)) MiB"
{% endfor %}
fi
{% endif %}
at={{ layer.members | length }}
printf 'note\t%s\t%s\n' zfs "${moved}hits of the ARC ${counted[at]}, misses ${counted[at + 1]}"
{% if work.direct %}
if [[ -e /sys/module/zfs/parameters/zfs_dio_enabled ]]; then
  past="reads past the ARC ${counted[at + 2]}, writes ${counted[at + 3]}"
else
  first_line /sys/module/zfs/version
  past="none: OpenZFS $REPLY accepts direct I/O, and uses the ARC"
fi
printf 'note\t%s\t%s\n' zfs.direct "$past"
{% endif %}
