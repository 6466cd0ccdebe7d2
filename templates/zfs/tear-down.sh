
# The pool has the mark of this program in its name, in the kernel and on each of its devices.
if [[ -d /proc/spl/kstat/zfs/{{ layer.pool }} ]]; then retry zpool destroy -f {{ layer.pool }}; fi
members=({{ layer.members }})
for member in "${members[@]}"; do
  # The first of four labels begins with the name of the pool, also after a creation that was interrupted.
  if [[ -b $member && $(dd if="$member" bs=16K skip=1 count=1 status=none | tr -d '\0') == *{{ layer.pool }}* ]]; then
    zpool labelclear -f "$member"
  fi
done
rm -rf -- {{ layer.nodes }} /dev/zvol/{{ layer.pool }} {{ layer.cachefile }} {{ layer.cachefile }}.counted
{% if layer.directory %}
if [[ -d {{ layer.directory }} ]]; then rmdir {{ layer.directory }}; fi
{% endif %}
if [[ -s /run/matrix/zfs-arc && -e /sys/module/zfs ]]; then
  mapfile -t limits </run/matrix/zfs-arc
  echo "${limits[1]}" >/sys/module/zfs/parameters/zfs_arc_max
  echo "${limits[0]}" >/sys/module/zfs/parameters/zfs_arc_min
  rm -f /run/matrix/zfs-arc
fi
