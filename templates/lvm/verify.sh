
number_of=()
number=0
members=({{ layer.members }})
for member in "${members[@]}"; do
  kernel_name "$member"
  first_line "/sys/class/block/$REPLY/dev"
  number_of[$REPLY]=$((++number))
done
memory=${MATRIX_MEMORY:-/run/matrix}/lvm/{{ layer.tag }}
extent='' start=''
if [[ -e $memory ]]; then read -r extent start _ <"$memory" || true; fi
{% for made in layer.volumes %}
{% set name = layer.names[loop.index0] %}
read_volume {{ made.mapped }}
lies_on {{ made.mapped }} order
{% if layer.cache %}
lies_on {{ layer.cache }} fast
{% endif %}
{% if layer.redundant %}
read_sync {{ made.mapped }}
{% endif %}
if [[ -n $extent ]]; then
  volume[extent_size]=$extent
  volume[data_start]=${volume[data_start]-$start}
fi
{% for setting, wanted in made.readings.items() %}
{% set key = 'size' if setting == 'bytes' else setting %}
told {{ name ~ '.' ~ setting }} {{ '-' if wanted is none else wanted }} "${volume[{{ key }}]-absent}"
{% endfor %}
{% endfor %}
