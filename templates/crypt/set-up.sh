
{% include 'dm.sh' %}
{% if layer.format != 'plain' %}
{% for one in layer.mappings %}
printf '%s' {{ layer.key }} |
  cryptsetup luksFormat --batch-mode {{ layer.format_options }} --uuid={{ one.mark }} --key-file=- {{ one.member }}
{% endfor %}
{% endif %}
{% include 'crypt/open.sh' %}
dmsetup table
