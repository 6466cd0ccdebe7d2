{% if layer.directory %}
{% include 'lay-out.sh' %}

{% endif %}
{% if layer == stack.layers[-1] %}
{% include 'retry.sh' %}

# An export empties the ARC of this pool, and no other one. A volume in use cannot be exported.
retry zpool export {{ layer.pool }}
{% include 'zfs/import.sh' %}
{% endif %}
{% include 'zfs/counted.sh' %}
count_zfs
printf '%s\n' "${counted[*]}" >{{ layer.cachefile }}.counted
