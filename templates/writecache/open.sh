{# Needs dm.sh. #}
{% for one in layer.mappings %}
if ! mapping_of {{ one.owner }}; then
  target=({{ layer.target }})
  # Without udev rules, dmsetup makes the node in /dev/mapper itself, as LVM does here.
  dmsetup create --noudevrules --noudevsync {{ one.name }} --uuid {{ one.uuid }} --table "0 $(blockdev --getsz {{ one.member }}) ${target[*]}"
fi
{% endfor %}
if command -v udevadm >/dev/null; then udevadm settle; fi
{% for one in layer.mappings %}
if [[ ! -e {{ one.path }} ]]; then
  kernel_name {{ one.path }}
  ln -s "../$REPLY" {{ one.path }}
fi
[[ -b {{ one.path }} ]] || fail "the device {{ one.path }} did not appear"
{% endfor %}
