{% include 'fs/mounted.sh' %}

# The mount is recognised by its place, the file system on the devices by its mark.
{% include 'fs/unmount.sh' %}
rm -f {{ layer.directory }}.mounted
if [[ -d {{ layer.directory }} ]]; then rmdir {{ layer.directory }}; fi
{% if layer.type == 'xfs' and 'journal' in layer.facts %}
# A log on its own device has no signature that `wipefs` can compare, but each of its records has the UUID.
journal={{ layer.members[-1] }}
if [[ -b $journal ]]; then
  records=$(dd if="$journal" bs=256K count=1 status=none | od -An -v -tx1 | tr -d ' \n')
  if [[ $records == *{{ layer.mark | replace('-', '') }}* ]]; then
    dd if=/dev/zero of="$journal" bs=1M count=1 conv=notrunc,fsync status=none
  fi
fi
{% endif %}
ours=()
members=({{ layer.members }})
for member in "${members[@]}"; do
  if [[ -b $member && $(wipefs --noheadings --parsable --output UUID,LABEL "$member" 2>/dev/null) == *{{ layer.mark }}* ]]; then
    ours+=("$member")
  fi
done
if [[ -n ${ours[*]} ]]; then
  wipefs --quiet --all "${ours[@]}"
{% if layer.type == 'btrfs' %}
  # The kernel remembers members, and would confuse the next file system with the same mark with this one.
  btrfs device scan --forget "${ours[@]}"
{% endif %}
fi
