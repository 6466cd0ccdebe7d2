
# Hits are counted from here, and after the measurement compared with what reached the cache.
kernel_name {{ layer.device }}
at=/sys/class/block/$REPLY/bcache
echo 1 >"$at/clear_stats"
first_line "$at/cache/cache0/written"
mkdir -p /run/matrix
echo "$REPLY" >/run/matrix/{{ layer.uuid }}
