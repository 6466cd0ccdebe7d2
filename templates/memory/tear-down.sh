
{% for name in layer.devices %}
at=/sys/kernel/config/nullb/{{ name }}
if [[ -d $at ]]; then
  echo 0 >"$at/power"
  rmdir "$at"
fi
if [[ -L {{ '/dev/' ~ name }} ]]; then rm -- {{ '/dev/' ~ name }}; fi
{% endfor %}
