
{% include 'retry.sh' %}
{% include 'bcache/open.sh' %}
