
{% include 'dm.sh' %}
{% include 'integrity/open.sh' %}
