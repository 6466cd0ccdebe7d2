
{% include 'dm.sh' %}
{% include 'open/integrity.sh' %}
