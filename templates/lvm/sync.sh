declare -A volume
# How a mirrored volume is, in volume[degraded] and volume[sync_action].
read_sync() {
  local status health action
  local -a words
  status=$(dmsetup status "$1")
  read -ra words <<<"$status"
  if [[ ${words[2]} == mirror ]]; then
    health=${words[6 + words[3]]}
    action=${words[4 + words[3]]}
    if [[ ${action%/*} == "${action#*/}" ]]; then action=idle; else action=resync; fi
    health=${health//[!A]/D}
  else
    health=${words[5]}
    action=${words[7]}
    # Legs that are alive but not in sync: the resync has not begun yet, or was stopped.
    if [[ $action == idle && $health == *a* ]]; then action=unsynchronised; fi
    # A resync that is made to begin anew is a repair to the kernel: it too goes over every stripe.
    if [[ $action == repair ]]; then action=resync; fi
  fi
  volume[degraded]=0
  while [[ $health == *D* ]]; do
    health=${health/D/}
    volume[degraded]=$((volume[degraded] + 1))
  done
  volume[sync_action]=$action
}
