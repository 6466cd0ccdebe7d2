
{% for command in told %}
{{ command[0] }} --yes {{ command[1:] }}
{% endfor %}
