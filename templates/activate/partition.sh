
disk={{ layer.members }}
{% include 'partitions.sh' %}
