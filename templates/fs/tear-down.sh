{% include 'fs/mounted.sh' %}

# The mount is recognised by its place, the file system on the devices by its mark.
{% include 'fs/unmount.sh' %}
rm -f {{ layer.directory }}.mounted
if [[ -d {{ layer.directory }} ]]; then rmdir {{ layer.directory }}; fi
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
