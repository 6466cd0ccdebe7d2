if command -v udevadm >/dev/null; then udevadm settle; fi
tops=({{ layer.tops }})
for top in "${tops[@]}"; do
  [[ -b $top ]] || fail "the volume $top did not appear"
done
# Facts of LVM for the read-back before every trial, because a call of LVM takes longer than many trials.
lvm pvs --config "$config" --noheadings --nosuffix --units b --separator ' ' --options vg_extent_size,pe_start,pv_name \
  >"$memory"
