
{% include 'dm.sh' %}
{% include 'open/crypt.sh' %}
