{% for part, start, length in layer.sectors %}
kernel_name {{ part }}
look {{ layer.names[loop.index0] ~ '.start' }} {{ start }} "/sys/class/block/$REPLY/start"
look {{ layer.names[loop.index0] ~ '.size' }} {{ length }} "/sys/class/block/$REPLY/size"
{% endfor %}
