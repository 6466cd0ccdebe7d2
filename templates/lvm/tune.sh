{% if layer.resync == 'background' %}

{% include 'lvm/sync.sh' %}

# Starts a finished resync again.
{% for one in layer.volumes %}
read_sync {{ one.mapped }}
if [[ ${volume[sync_action]} == idle ]]; then dmsetup message {{ one.mapped }} 0 repair; fi
{% endfor %}
{% endif %}
