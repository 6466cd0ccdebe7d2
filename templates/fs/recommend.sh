
# The devices are new, so signatures on them are remains of earlier use.
wipefs --quiet --all {{ layer.members }}
{% if told[2] %}
{{ told[2] }}
{% endif %}
{{ told[0] }}
mkdir -p {{ layer.directory }}
mount {{ layer.mount }}
# and at every boot:
device={{ layer.members[0] }}
uuid=$(blkid -s UUID -o value "$device")
printf '%s\n' "UUID=$uuid $mount_point" {{ told[1] }} | paste -sd ' ' >>/etc/fstab
