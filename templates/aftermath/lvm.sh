{% if layer.redundant %}

# The device mapper's own words: the letters tell of each image whether it lives (A), is not in sync yet (a) or is dead (D).
note {{ layer.names[0] ~ '.after' }} "$(dmsetup status {{ layer.mapped }})"
{% endif %}
