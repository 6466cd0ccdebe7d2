echo frozen >"$at/sync_action"
first_line "$at/bitmap/location"
if [[ ${REPLY:-none} != none ]]; then
  # Otherwise only the regions that are dirty in the bitmap would be synced.
  read -r chunk <"$at/bitmap/chunksize"
{% if layer.level == 'raid10' %}
  read -r sectors <"$at/../size"
  last=$(((sectors * 512 - 1) / chunk))
{% else %}
  read -r blocks <"$at/component_size"
  last=$(((blocks * 1024 - 1) / chunk))
{% endif %}
  echo "0-$last" >"$at/bitmap_set_bits"
fi
echo 0 >"$at/resync_start"
