
# It was measured on disks in memory. They lose their data at the end; this makes them again.
{% if layer.driver == 'brd' %}
modprobe brd rd_nr={{ layer.devices | length }} rd_size={{ layer.kib }}
{% for name in layer.devices %}
ln -s ram{{ loop.index0 }} {{ '/dev/' ~ name }}
{% endfor %}
{% else %}
modprobe null_blk nr_devices=0
{% for name in layer.devices %}
mkdir /sys/kernel/config/nullb/{{ name }}
{% for file, value in layer.files.items() %}
echo {{ value }} >/sys/kernel/config/nullb/{{ name }}/{{ file }}
{% endfor %}
echo 1 >/sys/kernel/config/nullb/{{ name }}/power
{% endfor %}
{% endif %}
