{% if layer.redundant %}

# The device mapper's own words: the letters tell of each image whether it lives (A), is not in sync yet (a) or is dead (D).
{% for one in layer.volumes %}
note {{ layer.names[loop.index0] ~ '.after' }} "$(dmsetup status {{ one.mapped }})"
{% endfor %}
{% endif %}
