
{% include 'dm.sh' %}
{% include 'crypt/open.sh' %}
