
# It asks for a passphrase.
{% for one in layer.mappings %}
{% if layer.format != 'plain' %}
cryptsetup luksFormat --batch-mode --verify-passphrase {{ told[0] }} {{ one.member }}
{% endif %}
cryptsetup open {{ layer.open_options }} {{ one.member }} {{ one.name }}
printf '%s\n' {{ one.name }} {{ one.member }} none luks | paste -sd ' ' >>/etc/crypttab
{% endfor %}
