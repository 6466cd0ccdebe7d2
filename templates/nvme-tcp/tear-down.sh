
for at in /sys/class/nvme/nvme*; do
  if [[ -e $at/subsysnqn ]]; then
    first_line "$at/subsysnqn"
    if [[ $REPLY == {{ layer.nqn }} ]]; then echo 1 >"$at/delete_controller"; fi
  fi
done
{% for top in layer.tops %}
if [[ -L {{ top }} ]]; then rm -- {{ top }}; fi
{% endfor %}
port=/sys/kernel/config/nvmet/ports/{{ layer.port }}
if [[ -L $port/subsystems/{{ layer.nqn }} ]]; then rm -- "$port/subsystems/"{{ layer.nqn }}; fi
if [[ -d $port ]]; then rmdir "$port"; fi
at=/sys/kernel/config/nvmet/subsystems/{{ layer.nqn }}
if [[ -d $at ]]; then
  for namespace in "$at"/namespaces/*; do
    if [[ -d $namespace ]]; then
      echo 0 >"$namespace/enable"
      rmdir "$namespace"
    fi
  done
  rmdir "$at"
fi
