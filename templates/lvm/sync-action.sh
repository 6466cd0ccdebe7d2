
{% include 'lvm/sync.sh' %}

mapped={{ layer.volumes[0].mapped }}
prepare() { :; }
{% if sync.action == 'rebuild' %}
# LVM forgets the content of the image on the last device, and copies it again.
begin() {
  LVM_SUPPRESS_FD_WARNINGS=1 lvm lvchange --config {{ layer.config }} --yes --rebuild {{ layer.members[-1] }} \
    {{ layer.name }}/volume >&2
}
{% else %}
begin() { dmsetup message "$mapped" 0 {{ sync.action }}; }
{% endif %}
is_running() {
  read_sync "$mapped"
  [[ ${volume[sync_action]} != idle ]]
}
facts() {
  local line count
  local -a words
  name={{ layer.names[0] }}
  [[ ${volume[degraded]} == 0 ]] ||
    fail "not as declared: $name.degraded wanted 0 until the end of the measurement, kernel says ${volume[degraded]}"
  line=$(dmsetup table "$mapped")
  read -ra words <<<"$line"
  count=${words[4]}
  # After the number of images: their metadata and data devices in turn.
  read -r bytes <"/sys/dev/block/${words[7 + count]}/size"
  bytes=$((bytes * 512))
  first_line /proc/sys/dev/raid/speed_limit_max
  fastest=$((REPLY * 1024))
  line=$(dmsetup status "$mapped")
  read -ra words <<<"$line"
  mismatches=${words[8]}
}
