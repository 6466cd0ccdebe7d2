{% for part, start, length in layer.sectors %}
kernel_name {{ part }}
look {{ part ~ '.start' }} {{ start }} "/sys/class/block/$REPLY/start"
look {{ part ~ '.size' }} {{ length }} "/sys/class/block/$REPLY/size"
{% endfor %}
