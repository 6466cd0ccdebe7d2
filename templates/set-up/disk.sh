
disk={{ layer.device }}
[[ -b $disk ]] || fail "$disk is not a block device"
