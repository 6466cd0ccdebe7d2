
{% include 'dm.sh' %}
{% include 'writecache/open.sh' %}
