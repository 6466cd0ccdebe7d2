{% if layer.state == 'rebuilding' %}

{% include 'retry.sh' %}

# A rebuild that came to its end begins anew.
kernel_name {{ layer.device }}
first_line "/sys/class/block/$REPLY/md/sync_action"
if [[ $REPLY == idle ]]; then
{% for member in layer.lost %}
  mdadm --manage --quiet {{ layer.device }} --fail {{ member }}
  retry mdadm --manage --quiet {{ layer.device }} --remove {{ member }}
  mdadm --zero-superblock {{ member }}
  mdadm --manage --quiet {{ layer.device }} --add {{ member }}
{% endfor %}
fi
{% elif layer.resync == 'background' %}

# A resync that came to its end begins anew.
kernel_name {{ layer.device }}
at=/sys/class/block/$REPLY/md
first_line "$at/sync_action"
if [[ $REPLY == idle ]]; then
  echo frozen >"$at/sync_action"
  echo 0 >"$at/resync_start"
  echo resync >"$at/sync_action"
fi
{% endif %}
