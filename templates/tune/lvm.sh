{% if layer.resync == 'background' %}

{% include 'volume-sync.sh' %}

# A resync that came to its end begins anew.
read_sync {{ layer.mapped }}
if [[ ${volume[sync_action]} == idle ]]; then dmsetup message {{ layer.mapped }} 0 repair; fi
{% endif %}
