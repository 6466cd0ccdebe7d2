
# A cache that met an error does not write back any more.
{% for one in layer.mappings %}
read -ra row < <(dmsetup status {{ one.name }}) || true
[[ ${row[3]-absent} == 0 ]] ||
  fail "not as declared:" {{ layer.names[0] ~ '.error' }} "wanted 0 until the end of the measurement, kernel says ${row[3]-absent}"
{% endfor %}
