
{% if told[1] %}
# At boot systemd opens it: version 250 or newer, on Debian 13 and later with the package systemd-cryptsetup.
{% else %}
# Nothing opens it at boot: not every systemd knows such checksums, or how they are kept. That is up to you.
{% endif %}
{% for one in layer.mappings %}
integritysetup format --batch-mode {{ told[0] }} {{ one.member }}
integritysetup open {{ layer.open_options }} {{ layer.mode_options }} {{ one.member }} {{ one.name }}
{% if told[1] %}
printf '%s\n' {{ one.name }} {{ one.member }} - {{ told[1] }} | paste -sd ' ' >>/etc/integritytab
{% endif %}
{% endfor %}
