
if [[ ! -e /sys/module/zfs/version ]]; then modprobe zfs; fi
{% include 'zfs/nodes.sh' %}
{% include 'zfs/arc.sh' %}
properties=()
{% for key, value in layer.properties.items() if key != 'volblocksize' %}
properties+=(-O {{ key ~ '=' ~ value }})
{% endfor %}
# `failmode`: if too many devices fail, requests fail instead of waiting without end.
zpool create -f -o ashift={{ layer.ashift }} -o cachefile={{ layer.cachefile }} -o failmode=continue \
  "${properties[@]}" -m {{ layer.directory or 'none' }} {{ layer.pool }} {{ layer.tree }}
{% if layer.volume %}
zfs create -s -V {{ layer.volume }} -o volblocksize={{ layer.properties.volblocksize }} {{ layer.data }}
{% include 'zfs/volume.sh' %}
{% endif %}
