{# The commands vgcreate and lvcreate are made in runner/matrix_runner/layers/lvm.py. #}

export LVM_SUPPRESS_FD_WARNINGS=1
# The name must be free on the whole host, because the kernel's names of volumes contain it. Looked up once.
if [[ -z ${groups_found+x} ]]; then
  groups_found=$(lvm vgs --config {{ layer.sees_all }} --readonly --noheadings --options vg_name 2>/dev/null) || true
  groups_found=" ${groups_found//$'\n'/ } "
fi
group={{ layer.name }}
if [[ $groups_found == *" $group "* {% for top in layer.tops %} || -e {{ top }}{% endfor %} ]]; then
  fail "a volume group $group is there already, and it is not ours"
fi
{% if layer.stands_on_layers %}
# The devices are new, so signatures on them are remains of earlier layers.
wipefs --quiet --all {{ layer.members }}
{% endif %}
config={{ layer.config }}
memory=${MATRIX_MEMORY:-/run/matrix}/lvm
mkdir -p "$memory"
memory+=/{{ layer.tag }}
# From here on, physical volumes on these devices without a group belong to this stack.
: >"$memory"
{% for command in layer.commands %}
lvm {{ command[0] }} --config "$config" --yes {{ command[1:] }}
{% endfor %}
{% include 'lvm/remember.sh' %}
{% if layer.resync == 'waited for' %}

{% include 'lvm/sync.sh' %}

# Otherwise the first resync would run during the first measurements.
{% for one in layer.volumes %}
while read_sync {{ one.mapped }} && [[ ${volume[sync_action]} != idle ]]; do
  sleep 0.2
done
{% endfor %}
{% endif %}
