
{% include 'dm.sh' %}
# A sector that was never written has no tag and cannot be read, so all sectors are wiped: on all devices in parallel,
# and without a journal, which would write everything twice. The superblock has no uuid, so the mark is in an unused
# part of it.
wipes=()
{% for one in layer.mappings %}
integritysetup format --batch-mode --no-wipe {{ layer.format_options }} {{ one.member }}
printf '%s' {{ one.mark }} | dd of={{ one.member }} bs=512 seek=4 conv=notrunc,fsync status=none
integritysetup open {{ layer.open_options }} --integrity-no-journal {{ one.member }} {{ one.name }}
blkdiscard --force --zeroout {{ one.path }} &
wipes+=("$!")
{% endfor %}
for wipe in "${wipes[@]}"; do
  wait "$wipe" || fail "wiping failed:"
done
{% if layer.mode != 'direct' %}
{% for one in layer.mappings %}
retry integritysetup close {{ one.name }}
{% endfor %}
{% endif %}
{% include 'integrity/open.sh' %}
dmsetup table
