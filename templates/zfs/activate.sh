
{% if layer.volume %}
{% include 'retry.sh' %}

{% endif %}
if [[ ! -e /sys/module/zfs/version ]]; then modprobe zfs; fi
if [[ ! -d /proc/spl/kstat/zfs/{{ layer.pool }} ]]; then
{% include 'zfs/nodes.sh' %}
{% include 'zfs/arc.sh' %}
{% include 'zfs/import.sh' %}
fi
