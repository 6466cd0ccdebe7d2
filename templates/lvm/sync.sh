declare -A volume
# Puts the state of a mirrored volume into volume[degraded] and volume[sync_action].
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
    # Legs are alive but not in sync: the resync has not begun, or was stopped.
    if [[ $action == idle && $health == *a* ]]; then action=unsynchronised; fi
    # The kernel calls a repeated resync a repair, which also covers every stripe.
    if [[ $action == repair ]]; then action=resync; fi
  fi
  volume[degraded]=0
  while [[ $health == *D* ]]; do
    health=${health/D/}
    volume[degraded]=$((volume[degraded] + 1))
  done
  volume[sync_action]=$action
}
