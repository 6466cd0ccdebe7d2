# Succeeds if the disks are not in use and have no signatures; else $REPLY has the reason.
bare() {
  local disk holder found
  for disk in "$@"; do
    [[ -b $disk ]] || fail "$disk is not a block device"
    kernel_name "$disk"
    for holder in /sys/class/block/"$REPLY"/holders/* /sys/class/block/"$REPLY"/"$REPLY"*/partition; do
      if [[ -e $holder ]]; then
        holder=${holder%/partition}
        REPLY="$disk is in use by ${holder##*/}"
        return 1
      fi
    done
  done
  found=$(wipefs --noheadings --parsable --output DEVICE,TYPE,UUID,LABEL -- "$@" 2>&1) || true
  REPLY="a disk is not empty: ${found//$'\n'/; }"
  [[ -z $found ]]
}
