
# It asks for a passphrase.
{% for one in layer.mappings %}
{% if layer.format != 'plain' %}
cryptsetup luksFormat --batch-mode --verify-passphrase {{ told[0] }} {{ one.member }}
{% endif %}
cryptsetup open {{ told[1] }} {{ one.member }} {{ one.name }}
{% if told[2] %}
printf '%s\n' {{ one.name }} {{ one.member }} none {{ told[2] }} | paste -sd ' ' >>/etc/crypttab
{% endif %}
{% endfor %}
{% if not told[2] %}
# It must be opened by hand after a boot: crypttab cannot express a cipher with a comma.
{% endif %}
