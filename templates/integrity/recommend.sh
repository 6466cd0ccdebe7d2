
{% if told[1] %}
# systemd 250 or newer opens it at boot, on Debian 13 and later with the package systemd-cryptsetup.
{% else %}
# It must be opened by hand after a boot: not every systemd supports these checksums or this mode.
{% endif %}
{% for one in layer.mappings %}
integritysetup format --batch-mode {{ told[0] }} {{ one.member }}
integritysetup open {{ layer.open_options }} {{ layer.mode_options }} {{ one.member }} {{ one.name }}
{% if told[1] %}
printf '%s\n' {{ one.name }} {{ one.member }} - {{ told[1] }} | paste -sd ' ' >>/etc/integritytab
{% endif %}
{% endfor %}
