at=/sys/kernel/config/nvmet/subsystems/{{ layer.nqn }}
mkdir "$at"
echo 1 >"$at/attr_allow_any_host"
{% for member in layer.members %}
mkdir "$at/namespaces/"{{ loop.index }}
readlink -f {{ member }} >"$at/namespaces/"{{ loop.index }}/device_path
echo {{ layer.uuids[loop.index0] }} >"$at/namespaces/"{{ loop.index }}/device_uuid
echo 1 >"$at/namespaces/"{{ loop.index }}/enable
{% endfor %}
port=/sys/kernel/config/nvmet/ports/{{ layer.port }}
mkdir "$port"
echo ipv4 >"$port/addr_adrfam"
echo tcp >"$port/addr_trtype"
echo 127.0.0.1 >"$port/addr_traddr"
echo {{ layer.port }} >"$port/addr_trsvcid"
ln -s "$at" "$port/subsystems/"
