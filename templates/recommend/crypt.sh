
# It asks for a passphrase.
{% for one in layer.mappings %}
{% if layer.format != 'plain' %}
cryptsetup luksFormat --batch-mode --verify-passphrase {{ told[0] }} {{ one.member }}
{% endif %}
cryptsetup open {{ told[1] }} {{ one.member }} {{ one.name }}
printf '%s\n' {{ one.name }} {{ one.member }} none {{ told[2] }} | paste -sd ' ' >>/etc/crypttab
{% endfor %}
