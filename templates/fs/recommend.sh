
# What is found there is left over from before, as the disks were empty: the devices are new.
wipefs --quiet --all {{ layer.members }}
{{ told[0] }}
mkdir -p {{ layer.directory }}
mount {{ layer.mount }}
# and at every boot:
device={{ layer.members[0] }}
uuid=$(blkid -s UUID -o value "$device")
printf '%s\n' "UUID=$uuid $mount_point" {{ told[1] }} | paste -sd ' ' >>/etc/fstab
