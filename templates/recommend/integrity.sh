
# At boot systemd opens it, from version 250 on; without a journal only from 254 on (man integritytab).
{% for one in layer.mappings %}
integritysetup format --batch-mode {{ told[0] }} {{ one.member }}
integritysetup open {{ layer.open_options }} {{ layer.mode_options }} {{ one.member }} {{ one.name }}
printf '%s\n' {{ one.name }} {{ one.member }} - {{ told[1] }} | paste -sd ' ' >>/etc/integritytab
{% endfor %}
