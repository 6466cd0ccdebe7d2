if command -v udevadm >/dev/null; then udevadm settle; fi
tops=({{ layer.tops }})
for top in "${tops[@]}"; do
  [[ -b $top ]] || fail "the volume $top did not appear"
done
# What only LVM knows, for the read-back before every trial: asking it costs more than many a trial.
lvm pvs --config "$config" --noheadings --nosuffix --units b --separator ' ' --options vg_extent_size,pe_start,pv_name \
  >"$memory"
