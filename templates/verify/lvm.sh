
number_of=()
number=0
members=({{ layer.members }})
for member in "${members[@]}"; do
  kernel_name "$member"
  first_line "/sys/class/block/$REPLY/dev"
  number_of[$REPLY]=$((++number))
done
read_volume {{ layer.mapped }}
lies_on {{ layer.mapped }} order
{% for one in layer.readings if one.key == 'fast' %}
lies_on {{ layer.name | replace('-', '--') ~ '-fast_cvol' }} fast
{% endfor %}
{% if layer.redundant %}
read_sync {{ layer.mapped }}
{% endif %}
memory=${MATRIX_STATE:-/run/matrix}/lvm/{{ layer.tag }}
if [[ -e $memory ]] && read -r extent start _ <"$memory"; then
  volume[extent_size]=$extent
  volume[data_start]=${volume[data_start]-$start}
fi
{% for one in layer.readings %}
told {{ layer.names[0] ~ '.' ~ one.setting }} {{ '-' if one.wanted is none else one.wanted }} "${volume[{{ one.key }}]-absent}"
{% endfor %}
