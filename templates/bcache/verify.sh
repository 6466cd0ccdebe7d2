
kernel_name {{ layer.device }}
at=/sys/class/block/$REPLY/bcache
kernel_name {{ layer.origin }}
first_line "/sys/class/block/$REPLY/dev"
wanted=$REPLY
first_line "$at/../dev"
told {{ layer.names[0] ~ '.device' }} "$wanted" "${REPLY:-absent}"
kernel_name {{ layer.cache }}
first_line "/sys/class/block/$REPLY/dev"
wanted=$REPLY
first_line "$at/cache/cache0/../dev" 2>/dev/null || true
told {{ layer.names[0] ~ '.cache' }} "$wanted" "${REPLY:-absent}"
