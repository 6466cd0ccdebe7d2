{% if layer.redundant %}

# The status of the device mapper. The letters: an image is alive (A), alive but not in sync (a) or dead (D).
{% for one in layer.volumes %}
note {{ layer.names[loop.index0] ~ '.after' }} "$(dmsetup status {{ one.mapped }})"
{% endfor %}
{% endif %}
