
# Measured with an ARC of at most {{ layer.arc }} bytes; for the same: options zfs zfs_arc_max=… in /etc/modprobe.d.
properties=()
{% for key, value in layer.properties.items() if key != 'volblocksize' %}
properties+=(-O {{ key ~ '=' ~ value }})
{% endfor %}
pool=tank
zpool create -o ashift={{ layer.ashift }} "${properties[@]}" -m {{ layer.directory or 'none' }} "$pool" {{ layer.tree_of_members }}
{% if layer.volume %}
zfs create -V {{ layer.volume }} -o volblocksize={{ layer.properties.volblocksize }} "$pool"/volume
mkdir -p /dev/zvol/{{ layer.pool }}
if command -v udevadm >/dev/null; then udevadm settle; fi
ln -sfn ../"$pool"/volume {{ layer.device }}
{% endif %}
