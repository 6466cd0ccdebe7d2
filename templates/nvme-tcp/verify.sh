
controller=
for at in /sys/class/nvme/nvme*; do
  if [[ -e $at/subsysnqn ]]; then
    first_line "$at/subsysnqn"
    if [[ $REPLY == {{ layer.nqn }} ]]; then controller=$at; fi
  fi
done
{% for file, value in layer.shown.items() %}
REPLY=
if [[ -e $controller/{{ file }} ]]; then read -r REPLY <"$controller"/{{ file }}; fi
told {{ layer.names[0].partition('[')[0] ~ '.' ~ file }} {{ value }} "${REPLY:-absent}"
{% endfor %}
{% for name in layer.unread %}
told {{ layer.names[0].partition('[')[0] ~ '.' ~ name }} - "set, not read back"
{% endfor %}
{% for member in layer.members %}
REPLY=
at=/sys/kernel/config/nvmet/subsystems/{{ layer.nqn }}/namespaces/{{ loop.index }}
if [[ -e $at/device_path ]]; then read -r REPLY <"$at/device_path"; fi
if [[ $REPLY -ef {{ member }} ]]; then REPLY={{ member }}; fi
told {{ layer.names[loop.index0] ~ '.device' }} {{ member }} "${REPLY:-absent}"
{% endfor %}
