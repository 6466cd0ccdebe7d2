{% if layer.type == 'btrfs' and not faults %}

# A wrong copy is read again from another one, and only counted (from Linux 5.14 on).
for counts in /sys/fs/btrfs/{{ layer.mark }}/devinfo/*/error_stats; do
  [[ -e $counts ]] || continue
  while read -r name count; do
    [[ $count == 0 ]] ||
      fail "not as declared: fs.$name wanted 0 until the end of the measurement, kernel says $count" \
        "(\`btrfs device stats\` shows the device: replace it)"
  done <"$counts"
done
{% endif %}
