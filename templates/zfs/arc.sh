# The ARC is one for the whole machine. Its limits before are kept for the tear-down.
parameters=/sys/module/zfs/parameters
if [[ ! -s /run/matrix/zfs-arc ]]; then
  awk '$1 == "c_max" || $1 == "c_min" { print $3 }' /proc/spl/kstat/zfs/arcstats >/run/matrix/zfs-arc
fi
# The kernel takes no maximum below the minimum, and no minimum below 32 MiB.
echo 33554432 >"$parameters"/zfs_arc_min
echo {{ layer.arc }} >"$parameters"/zfs_arc_max
