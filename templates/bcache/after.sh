
kernel_name {{ layer.device }}
at=/sys/class/block/$REPLY/bcache
name={{ layer.names[0] }}
first_line "$at/state"
state=$REPLY
[[ $state == clean || $state == dirty ]] ||
  fail "not as declared: $name.state wanted clean or dirty until the end of the measurement, kernel says $state"
# Some of what bypasses a full cache is found in it all the same.
first_line "$at/stats_total/cache_hits"
hits=$REPLY
first_line "$at/stats_total/cache_bypass_hits"
hits=$((hits + REPLY))
first_line "$at/cache/cache0/written"
written=$REPLY
first_line "$at/dirty_data"
printf 'note\t%s\t%s\n' "$name" "$state, dirty $REPLY, hits $hits, written to the cache $written"
before=
if [[ -e /run/matrix/{{ layer.uuid }} ]]; then read -r before </run/matrix/{{ layer.uuid }}; rm -- /run/matrix/{{ layer.uuid }}; fi
[[ $hits != 0 || $written != "$before" ]] ||
  fail "not as declared: $name.cache took no part: no hits and no writes during the measurement" \
    "(requests bypass it by \`sequential_cutoff\`, by \`congested\` while it is slow, or while dirty data fills it)"
