
# Names of vdevs and numbers of devices, in the order of the pool; a state follows unless it is the usual one.
shown=
while read -r name state _; do
  case $name in
    errors:) break ;;
    {{ layer.nodes }}/*) name=${name##*/} ;;
    '' | NAME | pool: | state: | config: | {{ layer.pool }}) continue ;;
  esac
  case $state in '' | ONLINE | AVAIL) ;; *) name+=:$state ;; esac
  shown+=${shown:+ }$name
done < <(zpool status -P {{ layer.pool }} 2>/dev/null)
told zfs.vdevs {{ layer.shown }} "${shown:-absent}"
members=({{ layer.members }})
wanted=
got=
for number in "${!members[@]}"; do
  kernel_name "${members[number]}"
  first_line "/sys/class/block/$REPLY/dev"
  wanted+=${wanted:+ }$REPLY
  got+=${got:+ }$(stat -c %Hr:%Lr {{ layer.nodes }}/"$number" 2>/dev/null || true)
done
told zfs.devices "$wanted" "${got:-absent}"
# The kernel writes this file with each change of the pool.
shifts=
while read -r key value; do
  if [[ $key == ashift: && " $shifts " != *" $value "* ]]; then shifts+=${shifts:+ }$value; fi
done < <(zdb -U {{ layer.cachefile }} -C 2>/dev/null)
told zfs.ashift {{ layer.ashift }} "${shifts:-absent}"
declare -A said=()
while IFS=$'\t' read -r key value; do said[$key]=$value; done \
  < <(zfs get -Hp -o property,value {{ layer.properties | join(',') }} {{ layer.data }} 2>/dev/null)
{% for key, value in layer.properties.items() %}
told {{ 'zfs.' ~ key }} {{ value }} "${said[{{ key }}]:-absent}"
{% endfor %}
{% if layer.directory %}
got=absent
while read -r name at type _; do
  if [[ $at == {{ layer.directory }} ]]; then got="$type $name"; fi
done </proc/self/mounts
told zfs.mounted {{ 'zfs ' ~ layer.pool }} "$got"
{% endif %}
got=absent
while read -r key _ value; do
  if [[ $key == c_max ]]; then got=$value; fi
done </proc/spl/kstat/zfs/arcstats
told zfs.arc {{ layer.arc }} "$got"
first_line /sys/module/zfs/version
told zfs.version - "$REPLY"
