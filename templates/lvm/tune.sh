{% if layer.resync == 'background' %}

{% include 'lvm/sync.sh' %}

# A resync that came to its end begins anew.
{% for one in layer.volumes %}
read_sync {{ one.mapped }}
if [[ ${volume[sync_action]} == idle ]]; then dmsetup message {{ one.mapped }} 0 repair; fi
{% endfor %}
{% endif %}
