
{% for one in layer.mappings %}
integritysetup format --batch-mode {{ told[0] }} {{ one.member }}
integritysetup open {{ layer.open_options }} {{ layer.mode_options }} {{ one.member }} {{ one.name }}
{% endfor %}
