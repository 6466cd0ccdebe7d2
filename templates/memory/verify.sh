{% for name in layer.devices %}

at=/sys/kernel/config/nullb/{{ name }}
{% set of = layer.names[loop.index0] %}
{% for file, value in layer.files.items() %}
REPLY=
if [[ -e $at/{{ file }} ]]; then read -r REPLY <"$at"/{{ file }}; fi
told {{ of ~ '.' ~ file }} {{ value }} "${REPLY:-absent}"
{% endfor %}
{% endfor %}
