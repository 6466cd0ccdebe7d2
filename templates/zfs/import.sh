zpool import -d {{ layer.nodes }} -o cachefile={{ layer.cachefile }} {{ layer.pool }}
{% if layer.volume %}
{% include 'zfs/volume.sh' %}
{% endif %}
