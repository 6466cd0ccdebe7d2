# Finds the device of the volume by its name in the pool; udev would make the same link.
find_volume() {
  local node
  for node in /dev/zd*; do
    if [[ -b $node && $(/usr/lib/udev/zvol_id "$node") == {{ layer.data }} ]]; then
      mkdir -p /dev/zvol/{{ layer.pool }}
      ln -sfn "../../${node##*/}" {{ layer.device }}
      return 0
    fi
  done
  return 1
}
retry find_volume || fail "the device of the volume" {{ layer.data }} "did not appear"
# It may have another name than before.
kernel_names=()
