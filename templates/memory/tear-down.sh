
{% for name in layer.devices %}
{% if layer.driver == 'null_blk' %}
at=/sys/kernel/config/nullb/{{ name }}
if [[ -d $at ]]; then
  echo 0 >"$at/power"
  rmdir "$at"
fi
{% elif loop.first %}
if [[ -L {{ '/dev/' ~ name }} && -e /sys/module/brd ]]; then modprobe -r brd; fi
{% endif %}
if [[ -L {{ '/dev/' ~ name }} ]]; then rm -- {{ '/dev/' ~ name }}; fi
{% endfor %}
