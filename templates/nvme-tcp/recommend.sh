
# It was measured within one host. Across a network, these lines belong to the target, with its address for 127.0.0.1.
modprobe nvmet_tcp
{% include 'nvme-tcp/target.sh' %}
# And these to the initiator.
modprobe nvme_tcp
echo {{ layer.options }} >/dev/nvme-fabrics
udevadm settle
{% for top in layer.tops %}
ln -sfn {{ '/dev/disk/by-id/nvme-uuid.' ~ layer.uuids[loop.index0] }} {{ top }}
{% endfor %}
