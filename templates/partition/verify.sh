{% if layer.mapped %}
{% if layer == (stack.layers | selectattr('kind', 'equalto', 'partition') | selectattr('mapped') | first) %}
{% include 'verify-dm.sh' %}

{% endif %}
disk={{ layer.members }}
kernel_name "$disk"
first_line "/sys/class/block/$REPLY/dm/uuid"
whole=$REPLY
{% endif %}
{% for part in layer.parts %}
{% set name = layer.names[loop.index0] %}
{% if layer.mapped %}
told_mapping {{ name }} {{ part.path | replace('/dev/mapper/', '') }} "$disk" linear 3 part{{ loop.index }}-"$whole"
told {{ name ~ '.start' }} {{ part.start }} "${row[4]-absent}"
told {{ name ~ '.size' }} {{ part.size }} "${row[1]-absent}"
{% else %}
kernel_name {{ part.path }}
look {{ name ~ '.start' }} {{ part.start }} "/sys/class/block/$REPLY/start"
look {{ name ~ '.size' }} {{ part.size }} "/sys/class/block/$REPLY/size"
{% endif %}
{% endfor %}
